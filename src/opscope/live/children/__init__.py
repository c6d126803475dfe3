"""Records the processes that a program starts, each as a part of one folder."""
