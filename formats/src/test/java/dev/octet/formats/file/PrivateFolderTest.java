package dev.octet.formats.file;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class PrivateFolderTest {
    private static final int NOBODY = 65534;

    @TempDir
    Path folder;

    @BeforeEach
    void folders_have_owners() {
        assumeTrue(folder.getFileSystem().supportedFileAttributeViews().contains("unix"), "no owners on this system");
    }

    private static Path with(Path made, String permissions) throws IOException {
        return Files.setPosixFilePermissions(made, PosixFilePermissions.fromString(permissions));
    }

    private static String permissions(Path path) throws IOException {
        return PosixFilePermissions.toString(Files.getPosixFilePermissions(path));
    }

    private static void belongsToNobody(Path path) throws IOException {
        try {
            Files.setAttribute(path, "unix:uid", NOBODY);
        } catch (FileSystemException e) {
            assumeTrue(false, "only root can give files away");
        }
    }

    private static String refusal(Path path) {
        FileSystemException e = assertThrows(FileSystemException.class, () -> PrivateFolder.open(path));
        return String.valueOf(e.getReason());
    }

    @Test
    void a_missing_folder_is_made_for_its_user_alone_and_so_are_those_above() throws IOException {
        Path made = PrivateFolder.open(folder.resolve("a/b"));
        assertEquals(folder.toRealPath().resolve("a/b"), made);
        assertEquals("rwx------", permissions(made));
        assertEquals("rwx------", permissions(made.resolveSibling("")));
    }

    @Test
    void a_folder_that_others_could_only_read_is_closed() throws IOException {
        Path open = with(Files.createDirectory(folder.resolve("open")), "rwxr-xr-x");
        assertEquals("rwx------", permissions(PrivateFolder.open(open)));
    }

    @Test
    void a_folder_that_others_could_write_is_refused() throws IOException {
        Path open = with(Files.createDirectory(folder.resolve("open")), "rwxrwxrwx");
        assertEquals("can be written by other users", refusal(open));
        assertEquals("rwxrwxrwx", permissions(open));
    }

    @Test
    void a_folder_of_another_user_is_refused() throws IOException {
        Path others = with(Files.createDirectory(folder.resolve("others")), "rwx------");
        belongsToNobody(others);
        assertEquals("belongs to another user", refusal(others));
    }

    @Test
    void a_folder_of_a_group_is_refused_unless_it_is_the_group_of_the_user() throws IOException {
        Path shared = with(Files.createDirectory(folder.resolve("shared")), "rwxrwx---");
        int user = (int) Files.getAttribute(shared, "unix:uid");
        try {
            Files.setAttribute(shared, "unix:gid", NOBODY);
        } catch (FileSystemException e) {
            assumeTrue(false, "only root can give files to any group");
        }
        assertEquals("can be written by other users", refusal(shared));
        Files.setAttribute(shared, "unix:gid", user);
        assertEquals("rwx------", permissions(PrivateFolder.open(shared)));
    }

    @Test
    void a_link_is_refused_but_one_above_is_followed() throws IOException {
        Path real = with(Files.createDirectory(folder.resolve("real")), "rwx------");
        Path link = Files.createSymbolicLink(folder.resolve("link"), real);
        assertEquals("is a link", refusal(link));
        assertEquals(real.toRealPath().resolve("below"), PrivateFolder.open(link.resolve("below")));
    }

    @Test
    void a_file_is_no_folder() throws IOException {
        Path file = Files.createFile(folder.resolve("file"));
        assertThrows(IOException.class, () -> PrivateFolder.open(file));
        assertThrows(IOException.class, () -> PrivateFolder.open(file.resolve("below")));
    }

    @ParameterizedTest
    @ValueSource(strings = {"rwxrwxrwx", "rwxr-xrwx"})
    void a_folder_below_one_that_others_can_write_is_refused(String permissions) throws IOException {
        Path above = with(Files.createDirectory(folder.resolve("above")), permissions);
        assertEquals("can be written by other users and is not sticky", refusal(above.resolve("mine")));
    }

    @Test
    void a_folder_below_a_sticky_one_is_the_users_own() throws IOException {
        Path above = with(Files.createDirectory(folder.resolve("above")), "rwxrwxrwx");
        Files.setAttribute(above, "unix:mode", 01777);
        assertEquals("rwx------", permissions(PrivateFolder.open(above.resolve("mine"))));
    }

    @Test
    void a_folder_below_one_of_another_user_is_refused() throws IOException {
        Path above = with(Files.createDirectory(folder.resolve("above")), "rwxr-xr-x");
        Path mine = Files.createDirectory(above.resolve("mine"));
        belongsToNobody(above);
        assertEquals("belongs to another user", refusal(mine));
    }

    @Test
    void a_temporary_folder_is_new_and_private() throws IOException {
        Path made = PrivateFolder.temporary("octet-test");
        try {
            assertEquals("rwx------", permissions(made));
            assertFalse(made.equals(PrivateFolder.temporary("octet-test")));
        } finally {
            Files.delete(made);
        }
    }
}
