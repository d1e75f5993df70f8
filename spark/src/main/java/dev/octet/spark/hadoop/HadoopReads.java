package dev.octet.spark.hadoop;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.nio.channels.FileChannel;
import java.nio.channels.SeekableByteChannel;
import java.nio.file.AccessDeniedException;
import java.nio.file.AccessMode;
import java.nio.file.CopyOption;
import java.nio.file.DirectoryStream;
import java.nio.file.FileStore;
import java.nio.file.FileSystem;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.ReadOnlyFileSystemException;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributeView;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.FileAttributeView;
import java.nio.file.attribute.FileTime;
import java.nio.file.spi.FileSystemProvider;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.security.AccessControlException;
import org.jspecify.annotations.Nullable;

/** What {@link java.nio.file.Files} does with paths of Hadoop: reading. Everything else is refused. */
final class HadoopReads extends FileSystemProvider {
    static final HadoopReads PROVIDER = new HadoopReads();

    private static final String SCHEME = "hadoop";

    private HadoopReads() {}

    private static HadoopPath own(Path path) {
        if (path instanceof HadoopPath own) {
            return own;
        }
        throw new java.nio.file.ProviderMismatchException(String.valueOf(path));
    }

    /** Hadoop's answer, with its exceptions in the words of {@code java.nio.file}, which Octet's messages know. */
    private static <T> T asked(Path path, Question<T> question) throws IOException {
        try {
            return question.ask(own(path).getFileSystem().files(), own(path).inHadoop());
        } catch (FileNotFoundException e) {
            NoSuchFileException missing = new NoSuchFileException(path.toString());
            missing.initCause(e);
            throw missing;
        } catch (AccessControlException e) {
            AccessDeniedException denied = new AccessDeniedException(path.toString(), null, e.getMessage());
            denied.initCause(e);
            throw denied;
        }
    }

    private interface Question<T> {
        T ask(org.apache.hadoop.fs.FileSystem files, org.apache.hadoop.fs.Path path) throws IOException;
    }

    @Override
    public String getScheme() {
        return SCHEME;
    }

    @Override
    public FileChannel newFileChannel(Path path, Set<? extends OpenOption> options, FileAttribute<?>... attributes)
            throws IOException {
        if (options.stream().anyMatch(o -> o != StandardOpenOption.READ && o != LinkOption.NOFOLLOW_LINKS)) {
            throw new ReadOnlyFileSystemException();
        }
        return asked(path, (files, file) -> {
            FileStatus status = files.getFileStatus(file);
            if (status.isDirectory()) {
                throw new IOException("'" + path + "' is a folder");
            }
            return new HadoopChannel(files.open(file), status.getLen());
        });
    }

    @Override
    public SeekableByteChannel newByteChannel(
            Path path, Set<? extends OpenOption> options, FileAttribute<?>... attributes) throws IOException {
        return newFileChannel(path, options, attributes);
    }

    @Override
    public DirectoryStream<Path> newDirectoryStream(Path folder, DirectoryStream.Filter<? super Path> filter)
            throws IOException {
        List<Path> entries = new ArrayList<>();
        FileStatus[] found = asked(folder, (files, path) -> {
            if (!files.getFileStatus(path).isDirectory()) {
                throw new NotDirectoryException(folder.toString());
            }
            return files.listStatus(path);
        });
        for (FileStatus status : found) {
            Path entry = folder.resolve(status.getPath().getName());
            if (filter.accept(entry)) {
                entries.add(entry);
            }
        }
        return new DirectoryStream<>() {
            @Override
            public Iterator<Path> iterator() {
                return entries.iterator();
            }

            @Override
            public void close() {
                // the list is in memory
            }
        };
    }

    @Override
    public void checkAccess(Path path, AccessMode... modes) throws IOException {
        asked(path, (files, file) -> files.getFileStatus(file));
        if (Arrays.asList(modes).contains(AccessMode.WRITE)) {
            throw new AccessDeniedException(path.toString(), null, "read only");
        }
    }

    @Override
    public <A extends BasicFileAttributes> A readAttributes(Path path, Class<A> type, LinkOption... options)
            throws IOException {
        if (type != BasicFileAttributes.class) {
            throw new UnsupportedOperationException(type.getName());
        }
        return type.cast(asked(path, (files, file) -> new Attributes(files.getFileStatus(file))));
    }

    private record Attributes(FileStatus status) implements BasicFileAttributes {
        @Override
        public FileTime lastModifiedTime() {
            return FileTime.fromMillis(status.getModificationTime());
        }

        @Override
        public FileTime lastAccessTime() {
            return FileTime.fromMillis(status.getAccessTime());
        }

        @Override
        public FileTime creationTime() {
            return lastModifiedTime();
        }

        @Override
        public boolean isRegularFile() {
            return status.isFile();
        }

        @Override
        public boolean isDirectory() {
            return status.isDirectory();
        }

        @Override
        public boolean isSymbolicLink() {
            return status.isSymlink();
        }

        @Override
        public boolean isOther() {
            return false;
        }

        @Override
        public long size() {
            return status.getLen();
        }

        @Override
        public Object fileKey() {
            return status.getPath();
        }
    }

    @Override
    public <V extends FileAttributeView> @Nullable V getFileAttributeView(
            Path path, Class<V> type, LinkOption... options) {
        if (type != BasicFileAttributeView.class) {
            return null;
        }
        return type.cast(new BasicFileAttributeView() {
            @Override
            public String name() {
                return "basic";
            }

            @Override
            public BasicFileAttributes readAttributes() throws IOException {
                return HadoopReads.this.readAttributes(path, BasicFileAttributes.class);
            }

            @Override
            public void setTimes(@Nullable FileTime modified, @Nullable FileTime accessed, @Nullable FileTime created) {
                throw new ReadOnlyFileSystemException();
            }
        });
    }

    @Override
    public Map<String, Object> readAttributes(Path path, String names, LinkOption... options) {
        throw new UnsupportedOperationException("attributes '" + names + "' by name");
    }

    @Override
    public boolean isSameFile(Path a, Path b) {
        return a.equals(b)
                || (b instanceof HadoopPath other
                        && own(a).getFileSystem().equals(other.getFileSystem())
                        && own(a).inHadoop().equals(other.inHadoop()));
    }

    @Override
    public boolean isHidden(Path path) {
        return String.valueOf(path.getFileName()).startsWith(".");
    }

    @Override
    public FileStore getFileStore(Path path) {
        throw new UnsupportedOperationException("space on the disks of '" + path + "'");
    }

    @Override
    public FileSystem newFileSystem(URI uri, Map<String, ?> environment) {
        throw new UnsupportedOperationException("paths come from HadoopPaths");
    }

    @Override
    public FileSystem getFileSystem(URI uri) {
        throw new UnsupportedOperationException("paths come from HadoopPaths");
    }

    @Override
    public Path getPath(URI uri) {
        throw new UnsupportedOperationException("paths come from HadoopPaths");
    }

    @Override
    public void createDirectory(Path folder, FileAttribute<?>... attributes) {
        throw new ReadOnlyFileSystemException();
    }

    @Override
    public void delete(Path path) {
        throw new ReadOnlyFileSystemException();
    }

    @Override
    public void copy(Path from, Path to, CopyOption... options) {
        throw new ReadOnlyFileSystemException();
    }

    @Override
    public void move(Path from, Path to, CopyOption... options) {
        throw new ReadOnlyFileSystemException();
    }

    @Override
    public void setAttribute(Path path, String name, Object value, LinkOption... options) {
        throw new ReadOnlyFileSystemException();
    }
}
