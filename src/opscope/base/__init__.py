"""What every room uses: text and quantities, own threads, files and locks, what a process leaves."""
