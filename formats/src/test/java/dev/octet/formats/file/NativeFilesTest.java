package dev.octet.formats.file;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.UnavailableException;
import java.io.IOException;
import java.io.OutputStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.jar.JarEntry;
import java.util.jar.JarOutputStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class NativeFilesTest {
    private static final List<String> NAMES = List.of("libone.so", "libtwo.so.1");

    @TempDir
    Path folder;

    private final byte[] one = new byte[300_000];
    private final byte[] two = new byte[1000];
    private URLClassLoader loader;

    @BeforeEach
    void libraries_in_a_jar() throws IOException {
        SplittableRandom random = new SplittableRandom(7);
        random.nextBytes(one);
        random.nextBytes(two);
        Path jar = folder.resolve("natives.jar");
        try (OutputStream file = Files.newOutputStream(jar);
                JarOutputStream out = new JarOutputStream(file)) {
            out.putNextEntry(new JarEntry("lib/" + NAMES.get(0)));
            out.write(one);
            out.putNextEntry(new JarEntry("lib/" + NAMES.get(1)));
            out.write(two);
        }
        loader = new URLClassLoader(new URL[] {jar.toUri().toURL()}, null);
    }

    @AfterEach
    void the_jar_is_closed() throws IOException {
        loader.close();
    }

    private Path unpack(Path cache) {
        return NativeFiles.unpack(cache, loader, "lib/", NAMES);
    }

    private void assertWhole(Path at) throws IOException {
        assertArrayEquals(one, Files.readAllBytes(at.resolve(NAMES.get(0))));
        assertArrayEquals(two, Files.readAllBytes(at.resolve(NAMES.get(1))));
        try (var all = Files.list(at)) {
            assertEquals(4, all.count()); // nothing else is left next to them
        }
    }

    @Test
    void libraries_lie_in_a_folder_of_the_users_own_with_their_digests() throws IOException {
        Path cache = folder.resolve("cache");
        Path at = unpack(cache);
        assertTrue(at.startsWith(cache.toRealPath().resolve("native")), at.toString());
        assertWhole(at);
        for (Path path : List.of(at, cache.resolve("native"), cache)) {
            assertEquals("rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(path)));
        }
        assertEquals(
                Sha256.of(at.resolve("libone.so")) + "  libone.so\n", Files.readString(at.resolve("libone.so.sha256")));
    }

    @Test
    void a_library_that_is_there_and_whole_is_not_written_again() throws IOException {
        Path file = unpack(folder.resolve("cache")).resolve("libone.so");
        FileTime before = FileTime.from(Instant.EPOCH);
        Files.setLastModifiedTime(file, before);
        unpack(folder.resolve("cache"));
        assertEquals(before, Files.getLastModifiedTime(file));
    }

    @Test
    void a_changed_byte_is_found_and_the_library_unpacked_again() throws IOException {
        Path at = unpack(folder.resolve("cache"));
        try (FileChannel channel = FileChannel.open(at.resolve("libone.so"), StandardOpenOption.WRITE)) {
            channel.write(ByteBuffer.wrap(new byte[] {(byte) ~one[123_456]}), 123_456);
        }
        assertWhole(unpack(folder.resolve("cache")));
    }

    @Test
    void a_planted_library_is_replaced_even_with_a_digest_of_its_own() throws IOException {
        Path at = unpack(folder.resolve("cache"));
        Path planted = Files.write(at.resolve("libone.so"), new byte[one.length]);
        Files.writeString(at.resolve("libone.so.sha256"), Sha256.of(planted) + "  libone.so\n");
        Path elsewhere = Files.write(folder.resolve("elsewhere"), two);
        Files.delete(at.resolve("libtwo.so.1"));
        Files.createSymbolicLink(at.resolve("libtwo.so.1"), elsewhere);
        assertWhole(unpack(folder.resolve("cache")));
        assertFalse(Files.isSymbolicLink(at.resolve("libtwo.so.1")));
    }

    @Test
    void a_cache_that_others_can_write_is_left_alone_for_a_temporary_folder() throws IOException {
        Path cache = folder.resolve("cache");
        Path before = unpack(cache);
        Files.setPosixFilePermissions(cache, PosixFilePermissions.fromString("rwxrwxrwx"));
        Path at = unpack(cache);
        assertNotEquals(before, at);
        assertFalse(at.startsWith(cache.toRealPath()), at.toString());
        assertWhole(at);
        assertEquals(at, unpack(cache)); // one for the whole process
    }

    @Test
    void a_cache_that_cannot_be_made_is_replaced_by_a_temporary_folder() throws IOException {
        assertWhole(unpack(Files.createFile(folder.resolve("file"))));
    }

    @Test
    void two_at_once_do_not_disturb_each_other() throws InterruptedException, ExecutionException, IOException {
        Path cache = folder.resolve("cache");
        List<Callable<Path>> tasks = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            tasks.add(() -> unpack(cache));
        }
        try (ExecutorService threads = Executors.newFixedThreadPool(8)) {
            for (Future<Path> each : threads.invokeAll(tasks)) {
                assertWhole(each.get());
            }
        }
    }

    @Test
    void what_is_not_on_the_class_path_is_said() {
        UnavailableException e = assertThrows(
                UnavailableException.class, () -> NativeFiles.unpack(folder, loader, "lib/", List.of("libthree.so")));
        assertTrue(e.where().endsWith("lib/libthree.so"), e.where());
    }
}
