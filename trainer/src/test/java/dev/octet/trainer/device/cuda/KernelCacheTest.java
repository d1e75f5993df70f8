package dev.octet.trainer.device.cuda;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.trainer.kernel.CudaSource;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Compiled kernels on disk: whole, or made again. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class KernelCacheTest {
    private static final byte[] CODE = {5, 6, 7, 8, 9};

    @TempDir
    Path folder;

    private int made;

    private byte[] get(Path where) throws CompileException {
        return new KernelCache(where).get("kernel.cubin", () -> {
            made++;
            return CODE;
        });
    }

    @Test
    void what_was_made_is_kept() throws Exception {
        assertArrayEquals(CODE, get(folder.resolve("new")));
        assertArrayEquals(CODE, get(folder.resolve("new")));
        assertEquals(1, made);
    }

    @Test
    void a_torn_or_changed_file_is_made_again() throws Exception {
        get(folder);
        Path file = folder.resolve("kernel.cubin");
        byte[] whole = Files.readAllBytes(file);
        byte[] changed = whole.clone();
        changed[changed.length - 1] ^= 1;
        byte[] longer = Arrays.copyOf(whole, whole.length + 1);
        List<byte[]> hostile = List.of(
                new byte[0],
                Arrays.copyOf(whole, 31),
                Arrays.copyOf(whole, 32),
                Arrays.copyOf(whole, 36),
                changed,
                longer);
        for (byte[] bytes : hostile) {
            Files.write(file, bytes);
            made = 0;
            assertArrayEquals(CODE, get(folder));
            assertEquals(1, made, bytes.length + " bytes");
            assertArrayEquals(whole, Files.readAllBytes(file));
        }
    }

    @Test
    void a_folder_in_the_way_of_a_file_does_no_harm() throws Exception {
        Files.createDirectories(folder.resolve("kernel.cubin"));
        assertArrayEquals(CODE, get(folder));
    }

    @Test
    void a_folder_that_cannot_be_written_does_without() throws Exception {
        Path file = Files.writeString(folder.resolve("file"), "not a folder");
        assertArrayEquals(CODE, get(file.resolve("below")));
        assertArrayEquals(CODE, get(file.resolve("below")));
        assertEquals(2, made);
    }

    @Test
    void names_differ_by_all_that_goes_into_a_kernel() {
        CudaSource source = CudaSource.of(KernelCacheTest.class, "good.cu");
        ComputeCapability hopper = new ComputeCapability(90, false);
        String name = KernelCache.name(source, "nvrtc 13.0", hopper);
        assertTrue(name.matches("good-[0-9a-f]{32}\\.cubin"), name);
        assertEquals(name, KernelCache.name(source, "nvrtc 13.0", hopper));
        assertNotEquals(name, KernelCache.name(source, "nvrtc 13.1", hopper));
        assertNotEquals(name, KernelCache.name(source, "nvrtc 13.0", new ComputeCapability(89, false)));
        assertNotEquals(name, KernelCache.name(source, "nvrtc 13.0", new ComputeCapability(90, true)));
        assertNotEquals(name, KernelCache.name(source.define("BY", 2), "nvrtc 13.0", hopper));
        assertNotEquals(name, KernelCache.name(CudaSource.of(KernelCacheTest.class, "bad.cu"), "nvrtc 13.0", hopper));
    }

    @Test
    void nothing_half_written_is_left(@TempDir Path other) throws IOException, CompileException {
        get(other);
        try (var files = Files.list(other)) {
            assertEquals(List.of(other.resolve("kernel.cubin")), files.toList());
        }
    }
}
