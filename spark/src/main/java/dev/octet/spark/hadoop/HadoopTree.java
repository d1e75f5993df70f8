package dev.octet.spark.hadoop;

import java.nio.file.FileStore;
import java.nio.file.FileSystem;
import java.nio.file.Path;
import java.nio.file.PathMatcher;
import java.nio.file.WatchService;
import java.nio.file.attribute.UserPrincipalLookupService;
import java.nio.file.spi.FileSystemProvider;
import java.util.List;
import java.util.Set;

/** One of Hadoop's file systems as one of {@code java.nio.file}, read-only. Closing it leaves Hadoop's open: others share it. */
final class HadoopTree extends FileSystem {
    private final org.apache.hadoop.fs.FileSystem files;

    HadoopTree(org.apache.hadoop.fs.FileSystem files) {
        this.files = files;
    }

    org.apache.hadoop.fs.FileSystem files() {
        return files;
    }

    HadoopPath path(String text) {
        return HadoopPath.of(this, text);
    }

    /** The scheme and the authority, in front of absolute paths. */
    String prefix() {
        return files.getUri().toString();
    }

    @Override
    public FileSystemProvider provider() {
        return HadoopReads.PROVIDER;
    }

    @Override
    public void close() {
        // Hadoop's file system is shared
    }

    @Override
    public boolean isOpen() {
        return true;
    }

    @Override
    public boolean isReadOnly() {
        return true;
    }

    @Override
    public String getSeparator() {
        return "/";
    }

    @Override
    public Iterable<Path> getRootDirectories() {
        return List.of(path("/"));
    }

    @Override
    public Iterable<FileStore> getFileStores() {
        return List.of();
    }

    @Override
    public Set<String> supportedFileAttributeViews() {
        return Set.of("basic");
    }

    @Override
    public Path getPath(String first, String... more) {
        return path(more.length == 0 ? first : first + "/" + String.join("/", more));
    }

    @Override
    public PathMatcher getPathMatcher(String syntaxAndPattern) {
        throw new UnsupportedOperationException("patterns of paths in " + prefix());
    }

    @Override
    public UserPrincipalLookupService getUserPrincipalLookupService() {
        throw new UnsupportedOperationException("users of " + prefix());
    }

    @Override
    public WatchService newWatchService() {
        throw new UnsupportedOperationException("watching " + prefix());
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof HadoopTree tree && tree.files.getUri().equals(files.getUri());
    }

    @Override
    public int hashCode() {
        return files.getUri().hashCode();
    }
}
