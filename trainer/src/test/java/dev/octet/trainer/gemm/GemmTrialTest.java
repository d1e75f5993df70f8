package dev.octet.trainer.gemm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.file.CacheFolder;
import dev.octet.formats.file.Platform;
import dev.octet.formats.tensor.DType;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GemmTrialTest {
    @TempDir
    private Path cache;

    @BeforeEach
    void native_products_are_there() {
        assumeTrue(Platform.text().equals("linux-x86_64"));
    }

    private static Path library() {
        return OneDnn.unpack(CacheFolder.path());
    }

    @Test
    void what_was_measured_is_kept_and_read_again() throws IOException {
        Rates measured = GemmTrial.rates(cache, library());
        assertEquals(measured, GemmTrial.rates(cache, library()));
        assertEquals(measured.lines(), Files.readString(kept()));
        assertTrue(measured.of(DType.F32, Route.GEMM) > 0);
    }

    @Test
    void two_builds_of_the_library_share_a_cache_folder() throws IOException {
        GemmTrial.rates(cache, library());
        Path other = cache.resolve("other-build");
        Files.createDirectory(other);
        for (String name : List.of("libdnnl.so.3", "libgomp.so.1")) {
            Files.copy(library().resolve(name), other.resolve(name));
        }
        GemmTrial.rates(cache, other);
        assertEquals(2, keptFiles().size());
    }

    @Test
    void what_cannot_be_read_is_measured_again() throws IOException {
        GemmTrial.rates(cache, library());
        for (String garbage : List.of("", "F32", "F32 GEMM NaN", "F32 GEMM 1e300", "BF16 GEMM 3.0", "X Y 1", "\0\0")) {
            Files.writeString(kept(), garbage);
            assertTrue(GemmTrial.rates(cache, library()).of(DType.F32, Route.GEMM) > 0.01, garbage);
        }
    }

    @Test
    void without_a_folder_for_it_each_run_measures() throws IOException {
        Path file = Files.createFile(cache.resolve("no-folder"));
        assertTrue(GemmTrial.rates(file, library()).of(DType.F32, Route.GEMM) > 0);
    }

    @Test
    void a_library_that_crashed_is_not_tried_again() throws IOException {
        GemmTrial.rates(cache, library());
        Files.writeString(kept(), "crashed\n");
        UnavailableException e = assertThrows(UnavailableException.class, () -> GemmTrial.rates(cache, library()));
        assertEquals("the native library crashes on this processor", e.what());
        assertTrue(String.valueOf(e.getMessage()).contains(kept().toString()), String.valueOf(e.getMessage()));
    }

    @Test
    void a_library_that_cannot_be_loaded_is_unavailable() throws IOException {
        Path broken = Files.createDirectory(cache.resolve("broken"));
        Files.copy(library().resolve("libgomp.so.1"), broken.resolve("libgomp.so.1"));
        Files.write(broken.resolve("libdnnl.so.3"), new byte[1000]);
        UnavailableException e = assertThrows(UnavailableException.class, () -> GemmTrial.rates(cache, broken));
        assertTrue(e.what().startsWith("the native library cannot be tried: "), e.what());
        assertThrows(UnavailableException.class, () -> OneDnn.load(broken));
    }

    @Test
    void the_fastest_route_is_taken_and_the_text_says_why() {
        Rates avx2 = new Rates(Map.of(DType.F32, Map.of(Route.GEMM, 100.0)));
        assertEquals(Route.WIDENED, avx2.best(DType.BF16));
        assertEquals(
                "BF16 widened to F32 (no instructions for it), F16 widened to F32 (no instructions for it)",
                avx2.text());
        Rates skylake = new Rates(
                Map.of(DType.F32, Map.of(Route.GEMM, 108.0), DType.BF16, Map.of(Route.GEMM, 20.0, Route.MATMUL, 19.0)));
        assertEquals(Route.WIDENED, skylake.best(DType.BF16));
        assertTrue(skylake.text().startsWith("BF16 widened to F32 (native: 0.20 of the speed), "), skylake.text());
        Rates sapphireRapids = new Rates(Map.of(
                DType.F32, Map.of(Route.GEMM, 108.0), DType.BF16, Map.of(Route.GEMM, 700.0, Route.MATMUL, 900.0)));
        assertEquals(Route.MATMUL, sapphireRapids.best(DType.BF16));
        assertEquals(Route.WIDENED, sapphireRapids.best(DType.F16));
        assertTrue(
                sapphireRapids.text().startsWith("BF16 native (9.0 times as fast as widened), "),
                sapphireRapids.text());
    }

    private Path kept() throws IOException {
        return keptFiles().getFirst();
    }

    private List<Path> keptFiles() throws IOException {
        try (var files = Files.list(cache.resolve("gemm"))) {
            return files.toList();
        }
    }
}
