package dev.octet.spark;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.security.AccessControlException;
import org.apache.hadoop.util.Progressable;

/** A file system of Hadoop that is none of the machine's to Octet, {@code distant:/...}; nothing may be made below a folder {@code forbidden}. */
public final class DistantFileSystem extends RawLocalFileSystem {
    @Override
    public URI getUri() {
        return URI.create("distant:///");
    }

    @Override
    public String getScheme() {
        return "distant";
    }

    @Override
    public void initialize(URI uri, Configuration conf) throws IOException {
        super.initialize(getUri(), conf);
    }

    private static void require(Path path) throws AccessControlException {
        if (path.toUri().getPath().contains("/forbidden")) {
            throw new AccessControlException("Permission denied: user=test, access=WRITE, inode=\"" + path + '"');
        }
    }

    @Override
    public boolean mkdirs(Path f) throws IOException {
        require(f);
        return super.mkdirs(f);
    }

    @Override
    public boolean mkdirs(Path f, FsPermission permission) throws IOException {
        require(f);
        return super.mkdirs(f, permission);
    }

    @Override
    public FSDataOutputStream create(
            Path f, boolean overwrite, int bufferSize, short replication, long blockSize, Progressable progress)
            throws IOException {
        require(f);
        return super.create(f, overwrite, bufferSize, replication, blockSize, progress);
    }
}
