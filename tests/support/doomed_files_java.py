"""Spark's files with a fate: the JVM is killed where the plan of the first batch gets its name.

A class of Java, compiled when a test asks for it, since Spark takes the manager of its
checkpoints' files by the name of a class.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyspark

CLASS = "DoomedFiles"
SETTING = "spark.sql.streaming.checkpointFileManagerClass"
SOURCE = """
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager;

public class DoomedFiles extends FileContextBasedCheckpointFileManager {
    public DoomedFiles(Path path, Configuration conf) {
        super(path, conf);
    }

    @Override
    public void renameTempFile(Path source, Path target, boolean overwrite) {
        if (target.getParent().getName().equals("offsets") && target.getName().equals("0")) {
            try {
                String pid = Long.toString(ProcessHandle.current().pid());
                new ProcessBuilder("kill", "-9", pid).start().waitFor();
            } catch (java.io.IOException | InterruptedException fault) {
                throw new IllegalStateException(fault);
            }
        }
        super.renameTempFile(source, target, overwrite);
    }
}
"""


def doomed_files(folder: Path) -> Path:
    """A folder for the class path in which the class is."""
    folder.mkdir()
    source = folder / f"{CLASS}.java"
    source.write_text(SOURCE)
    jars = Path(pyspark.__file__).parent / "jars"
    subprocess.run(
        ["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(folder), str(source)],
        check=True,
        capture_output=True,
        timeout=120,
    )
    return folder
