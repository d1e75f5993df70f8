package dev.octet.spark.hadoop;

import dev.octet.formats.error.InvalidOptionException;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFileSystem;
import org.apache.hadoop.fs.FileSystem;

/** Names of files as Spark's users write them, as paths. */
public final class HadoopPaths {
    private HadoopPaths() {}

    /**
     * The path of a name: of the machine's own files for {@code file:} and for names without a scheme where that is the default, otherwise
     * read-only in the named file system.
     *
     * @param name for example {@code hdfs://namenode/models/llama} or {@code /models/llama}
     * @throws InvalidOptionException when no file system has this scheme
     * @throws IOException when the file system cannot be reached
     */
    public static Path of(String name, Configuration configuration) throws IOException {
        org.apache.hadoop.fs.Path path = absolute(name, configuration);
        URI uri = path.toUri();
        return isLocal(uri)
                ? Path.of(uri.getPath())
                : new HadoopTree(path.getFileSystem(configuration)).path(uri.getPath());
    }

    /** A name made absolute, with its scheme. */
    public static org.apache.hadoop.fs.Path absolute(String name, Configuration configuration) throws IOException {
        try {
            org.apache.hadoop.fs.Path path = new org.apache.hadoop.fs.Path(name);
            FileSystem files = path.getFileSystem(configuration);
            return path.makeQualified(files.getUri(), files.getWorkingDirectory());
        } catch (IllegalArgumentException | org.apache.hadoop.fs.UnsupportedFileSystemException e) {
            throw new InvalidOptionException(
                    "'" + name + "' is not in a file system that Hadoop knows here: " + e.getMessage(),
                    name,
                    "write file:/..., hdfs://..., or put the file system's library on Spark's class path",
                    e);
        }
    }

    /** Whether a URI names files of the machine. */
    public static boolean isLocal(URI uri) {
        return "file".equals(uri.getScheme());
    }

    /** The file system of a path; of the machine's files the one without checksum files beside them. */
    public static FileSystem fileSystem(org.apache.hadoop.fs.Path path, Configuration configuration)
            throws IOException {
        FileSystem files = path.getFileSystem(configuration);
        return files instanceof ChecksumFileSystem checked ? checked.getRawFileSystem() : files;
    }
}
