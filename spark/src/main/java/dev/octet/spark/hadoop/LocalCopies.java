package dev.octet.spark.hadoop;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.spark.SparkFiles;

/** Files of Hadoop brought to this machine, once for each process: for libraries that read files of the machine alone. */
public final class LocalCopies {
    private static final Map<String, Path> COPIES = new HashMap<>();

    private LocalCopies() {}

    /**
     * A folder, or a file with the files beside it whose names begin with its own or that are a tokenizer's. What lies on this machine is
     * taken as it is; copies lie in Spark's folder of the application, which Spark removes.
     *
     * @param run copies of one run are not those of another: the files may have changed
     * @throws IOException when they cannot be read, or there is no space
     */
    public static Path of(String name, String run, Configuration configuration) throws IOException {
        org.apache.hadoop.fs.Path source = HadoopPaths.absolute(name, configuration);
        if (HadoopPaths.isLocal(source.toUri())) {
            return Path.of(source.toUri().getPath());
        }
        synchronized (COPIES) { // tasks of one process wait for one copy
            Path copy = COPIES.get(run + " " + source);
            if (copy == null) {
                Path folder = Files.createTempDirectory(
                        Path.of(SparkFiles.getRootDirectory()).toAbsolutePath(), "octet-copy-");
                copy = copied(source, folder, source.getFileSystem(configuration));
                COPIES.put(run + " " + source, copy);
            }
            return copy;
        }
    }

    private static Path copied(org.apache.hadoop.fs.Path source, Path folder, FileSystem files) throws IOException {
        Path copy = folder.resolve(source.getName());
        if (files.getFileStatus(source).isDirectory()) {
            bring(files, source, copy);
            return copy;
        }
        for (FileStatus beside : files.listStatus(source.getParent())) {
            String name = beside.getPath().getName();
            if (beside.isFile() && (name.startsWith(source.getName()) || name.equals("tokenizer.json"))) {
                bring(files, beside.getPath(), folder.resolve(name));
            }
        }
        return copy;
    }

    private static void bring(FileSystem files, org.apache.hadoop.fs.Path from, Path to) throws IOException {
        files.copyToLocalFile(false, from, new org.apache.hadoop.fs.Path(to.toUri()), true);
    }
}
