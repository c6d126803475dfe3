"""One session of Spark for all tests that ask it: starting one takes seconds."""

import importlib.util
import os
import shutil
from pathlib import Path

# Most of what a session takes is compiling itself: the quick compiler alone is done sooner.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def why_no_spark() -> str:
    """Why it cannot be asked here; empty where it can."""
    for package in ("ibis", "pyspark"):
        if importlib.util.find_spec(package) is None:
            return f"{package} is not installed"
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java").exists() if home else shutil.which("java")
    return "" if java else "there is no Java"
