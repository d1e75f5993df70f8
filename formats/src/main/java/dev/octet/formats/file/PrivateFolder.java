package dev.octet.formats.file;

import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;

/**
 * Folders that only this user can write to or read, so that only this user can have put files there.
 *
 * <p>A folder qualifies if it belongs to this user, is not a link and has permissions 700, and if every parent folder belongs to this user
 * or root and is not writable by others, unless it is sticky like {@code /tmp}. A group with this user's number counts as this user,
 * because many systems give each user a group of their own. Systems without POSIX owners and permissions are not checked.
 */
public final class PrivateFolder {
    private static final Set<PosixFilePermission> OWNER_ONLY = PosixFilePermissions.fromString("rwx------");
    private static final int WRITABLE_BY_GROUP = 0020;
    private static final int WRITABLE_BY_OTHERS = 0002;
    private static final int STICKY = 01000;
    private static final int OPEN_TO_ANYBODY = 0077;

    /** Owner, group and mode of a folder. */
    private record Access(int owner, int group, int mode) {
        static Access of(Path path) throws IOException {
            return new Access(
                    (int) Files.getAttribute(path, "unix:uid", LinkOption.NOFOLLOW_LINKS),
                    (int) Files.getAttribute(path, "unix:gid", LinkOption.NOFOLLOW_LINKS),
                    (int) Files.getAttribute(path, "unix:mode", LinkOption.NOFOLLOW_LINKS));
        }

        boolean has(int bits) {
            return (mode & bits) != 0;
        }

        boolean writableByOthersThan(int user) {
            return has(WRITABLE_BY_OTHERS) || (has(WRITABLE_BY_GROUP) && group != user);
        }
    }

    private PrivateFolder() {}

    /**
     * Opens a folder; creates missing folders, and removes the read permission of others.
     *
     * @return its path without links
     * @throws IOException when the folder cannot be created, or others could write to it or could have done so; the message has the reason
     */
    public static Path open(Path folder) throws IOException {
        Path absolute = folder.toAbsolutePath();
        if (!hasOwners(absolute)) {
            return Files.createDirectories(absolute);
        }
        if (!Files.isDirectory(absolute, LinkOption.NOFOLLOW_LINKS)) {
            if (Files.isSymbolicLink(absolute)) {
                throw refusal(absolute, "is a link");
            }
            Files.createDirectories(absolute, ownerOnly());
        }
        // from here on, changing a link above the folder has no effect
        Path real = absolute.toRealPath();
        int user = user();
        Access access = Access.of(real);
        if (access.owner() != user) {
            throw refusal(real, "belongs to another user");
        }
        if (access.writableByOthersThan(user)) {
            throw refusal(real, "can be written by other users");
        }
        for (Path above = real.getParent(); above != null; above = above.getParent()) {
            checkAbove(above, user);
        }
        if (access.has(OPEN_TO_ANYBODY)) {
            Files.setPosixFilePermissions(real, OWNER_ONLY);
        }
        return real;
    }

    /**
     * Creates a folder for temporary files.
     *
     * @throws IOException when the folder cannot be created, or other users could replace it
     */
    public static Path temporary(String prefix) throws IOException {
        Path parent = Path.of(System.getProperty("java.io.tmpdir")).toRealPath();
        if (!hasOwners(parent)) {
            return Files.createTempDirectory(parent, prefix);
        }
        Access access = Access.of(parent);
        if (access.writableByOthersThan(user()) && !access.has(STICKY)) {
            throw refusal(parent, "can be written by other users and is not sticky");
        }
        return Files.createTempDirectory(parent, prefix, ownerOnly());
    }

    private static void checkAbove(Path folder, int user) throws IOException {
        Access access = Access.of(folder);
        if (access.owner() != user && access.owner() != 0) {
            throw refusal(folder, "belongs to another user");
        }
        if (access.writableByOthersThan(user) && !access.has(STICKY)) {
            throw refusal(folder, "can be written by other users and is not sticky");
        }
    }

    private static boolean hasOwners(Path path) {
        return path.getFileSystem().supportedFileAttributeViews().contains("unix");
    }

    private static FileAttribute<Set<PosixFilePermission>> ownerOnly() {
        return PosixFilePermissions.asFileAttribute(OWNER_ONLY);
    }

    /** The user id of files that this process creates. */
    private static int user() throws IOException {
        Path self = Path.of("/proc/self");
        if (Files.exists(self)) {
            return (int) Files.getAttribute(self, "unix:uid");
        }
        Path file = Files.createTempFile("octet", null);
        try {
            return Access.of(file).owner();
        } finally {
            Files.delete(file);
        }
    }

    private static FileSystemException refusal(Path folder, String reason) {
        return new FileSystemException(folder.toString(), null, reason);
    }
}
