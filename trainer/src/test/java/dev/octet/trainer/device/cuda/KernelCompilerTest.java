package dev.octet.trainer.device.cuda;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.kernel.CudaSource;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Every kernel compiles for every kind of GPU, and what does not compile says why. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class KernelCompilerTest {
    private static final CudaSource GOOD = CudaSource.of(KernelCompilerTest.class, "good.cu");
    private static final CudaSource BAD = CudaSource.of(KernelCompilerTest.class, "bad.cu");

    /** The last of a source's variants; their C++ is compiled for tests of twins anyway, in many more variants. */
    @Test
    void every_source_compiles_for_hopper() throws IOException {
        Map<Map.Entry<Class<?>, String>, CudaSource> last = new LinkedHashMap<>();
        CudaSources.all().forEach(source -> last.put(Map.entry(source.owner(), source.file()), source));
        checkAll(List.copyOf(last.values()), List.of(90));
    }

    /** Minutes of two cores. */
    @Tag("sweep")
    @Test
    void every_variant_compiles_for_ada_hopper_and_blackwell() throws IOException {
        checkAll(CudaSources.all(), List.of(89, 90, 100));
    }

    private static void checkAll(List<CudaSource> sources, List<Integer> capabilities) {
        KernelCompiler compiler = Installed.compiler();
        record Job(CudaSource source, int capability) {}
        List<Integer> known =
                capabilities.stream().filter(compiler.architectures()::contains).toList();
        if (known.size() < capabilities.size()) {
            System.out.println(compiler.version() + " knows only " + known + " of " + capabilities);
        }
        List<Job> jobs = new ArrayList<>();
        for (CudaSource source : sources) {
            known.forEach(c -> jobs.add(new Job(source, c)));
        }
        // each compilation takes half a second or more of one core, so what compiled once is not compiled again
        KernelCache kept = new KernelCache(Path.of("target", "compiled-kernels").toAbsolutePath());
        List<String> refused = jobs.parallelStream()
                .flatMap(job -> {
                    try {
                        ComputeCapability architecture = new ComputeCapability(job.capability(), false);
                        byte[] code = kept.get(
                                KernelCache.name(job.source(), compiler.version(), architecture),
                                () -> compiler.compile(job.source(), architecture));
                        assertEquals("\u007fELF", new String(code, 0, 4, StandardCharsets.ISO_8859_1));
                        return Stream.empty();
                    } catch (CompileException e) {
                        return Stream.of(job + "\n" + e.log());
                    }
                })
                .map(Object::toString)
                .toList();
        assertEquals(List.of(), refused);
        assertFalse(known.isEmpty(), compiler.version() + " knows none of the GPUs Octet is for");
    }

    @Test
    void both_compilers_make_machine_code_and_ptx() throws CompileException {
        for (KernelCompiler compiler : Installed.compilers()) {
            byte[] cubin = compiler.compile(GOOD, new ComputeCapability(90, false));
            assertEquals("\u007fELF", new String(cubin, 0, 4, StandardCharsets.ISO_8859_1), compiler.version());
            String ptx = new String(compiler.compile(GOOD, new ComputeCapability(89, true)), StandardCharsets.UTF_8);
            assertTrue(ptx.contains(".target sm_89"), ptx);
            assertTrue(ptx.contains(".entry add_one"), ptx);
        }
    }

    @Test
    void macros_reach_the_source() throws CompileException {
        for (KernelCompiler compiler : Installed.compilers()) {
            String ptx = new String(
                    compiler.compile(GOOD.define("NAME", "add_two"), new ComputeCapability(89, true)),
                    StandardCharsets.UTF_8);
            assertTrue(ptx.contains(".entry add_two"), ptx);
        }
    }

    @Test
    void an_error_shows_the_log_and_the_line_of_the_source() {
        for (KernelCompiler compiler : Installed.compilers()) {
            CompileException e =
                    assertThrows(CompileException.class, () -> compiler.compile(BAD, new ComputeCapability(90, false)));
            assertTrue(e.log().contains("bad.cu(5): error: "), e.log());
            assertTrue(e.log().contains("    5 |     at[0] = undeclared;"), e.log());
            UnavailableException told = e.unavailable();
            assertTrue(
                    told.what().startsWith("kernel source bad.cu does not compile: bad.cu(5): error: "), told.what());
            assertTrue(told.what().contains("at[0] = undeclared;"), told.what());
            assertEquals(compiler.version() + " for sm_90a", told.where());
        }
    }

    @Test
    void a_gpu_newer_than_the_compiler_gets_the_newest_ptx_it_knows() {
        Set<Integer> known = Set.of(80, 89, 90);
        assertEquals(Optional.of(new ComputeCapability(90, false)), ComputeCapability.of(90, known));
        assertEquals(Optional.of(new ComputeCapability(90, true)), ComputeCapability.of(100, known));
        assertEquals(Optional.of(new ComputeCapability(80, true)), ComputeCapability.of(86, known));
        assertEquals(Optional.empty(), ComputeCapability.of(75, known));
        assertEquals("sm_90a", new ComputeCapability(90, false).option());
        assertEquals("compute_90", new ComputeCapability(90, true).option());
        assertEquals("sm_100", new ComputeCapability(100, false).option());
    }

    @Test
    void variants_of_a_source_are_named_in_its_comments() {
        assertEquals(
                List.of(
                        GOOD.define("NAME", "add_one"),
                        GOOD.define("NAME", "add_three").define("BY", 3)),
                CudaSources.variants(GOOD));
        assertEquals(List.of(BAD), CudaSources.variants(BAD));
    }

    @Test
    void packaging_leaves_ptx_that_is_found_by_what_it_was_made_from(@TempDir Path classes) throws IOException {
        KernelCompiler compiler = Installed.compiler();
        PrebuiltKernelsBuild.build(compiler, List.of(GOOD), classes);
        Path folder = classes.resolve("dev/octet/trainer/device/cuda/kernels");
        byte[] ptx = Files.readAllBytes(folder.resolve(PrebuiltKernels.name(GOOD, 90)));
        assertTrue(new String(ptx, StandardCharsets.UTF_8).contains(".target sm_90"));
        assertEquals(compiler.version() + "\n", Files.readString(folder.resolve("version.txt")));
    }

    @Test
    void without_a_compiler_the_message_says_all_that_was_tried(@TempDir Path folder) {
        KernelCompilers none = new KernelCompilers(Optional.empty(), "", List.of("libnvrtc: here", "nvcc: there"));
        Kernels kernels = new Kernels(none, new KernelCache(folder), 90);
        UnavailableException e = assertThrows(UnavailableException.class, () -> kernels.load(BAD));
        assertEquals("libnvrtc: here; nvcc: there", e.where());
        assertTrue(e.what().contains("no compiler was found, and this Octet has no prebuilt PTX of it"), e.what());
    }

    @Test
    void a_setting_leaves_nvrtc_aside(@TempDir Path folder) throws IOException {
        Files.write(folder.resolve("libnvrtc.so.13"), new byte[] {1});
        Map<String, String> environment = Map.of("OCTET_CUDA_HOME", folder.toString());
        CudaLibraries libraries = CudaLibraries.of(environment);
        KernelCompilers usual = KernelCompilers.of(libraries, environment, 13);
        assertTrue(usual.tried().getFirst().contains("libnvrtc.so.13"), usual.toString());
        System.setProperty(KernelCompilers.SETTING, "nvcc");
        try {
            KernelCompilers set = KernelCompilers.of(libraries, environment, 13);
            assertTrue(set.tried().stream().noneMatch(t -> t.contains("libnvrtc")), set.toString());
        } finally {
            System.clearProperty(KernelCompilers.SETTING);
        }
    }

    @Test
    void what_a_program_needs_is_compiled_ahead_by_several_threads(@TempDir Path folder) {
        Set<Thread> threads = ConcurrentHashMap.newKeySet();
        CountDownLatch both = new CountDownLatch(2);
        KernelCompiler slow = new KernelCompiler() {
            @Override
            public String version() {
                return "slow 1";
            }

            @Override
            public Set<Integer> architectures() {
                return Set.of(90);
            }

            @Override
            public byte[] compile(CudaSource source, ComputeCapability architecture) throws CompileException {
                threads.add(Thread.currentThread());
                if (source.defines().containsKey("BAD")) {
                    throw new CompileException(source, version(), architecture, "refused");
                }
                both.countDown();
                return new byte[] {1, 2, 3};
            }
        };
        // a folder that cannot be written: what is compiled ahead is kept in memory
        Kernels kernels = new Kernels(
                new KernelCompilers(Optional.of(slow), "here", List.of()), new KernelCache(Path.of("/proc/none")), 90);
        CudaSource bad = GOOD.define("BAD", 1);
        kernels.prepare(List.of(GOOD, GOOD.define("BY", 2), bad));
        assertEquals(0, both.getCount());
        assertFalse(threads.contains(Thread.currentThread()));
        threads.clear();
        assertArrayEquals(new byte[] {1, 2, 3}, kernels.load(GOOD));
        assertArrayEquals(new byte[] {1, 2, 3}, kernels.load(GOOD.define("BY", 2)));
        assertEquals(Set.of(), threads);
        assertThrows(UnavailableException.class, () -> kernels.load(bad));
    }

    @Test
    void kernels_are_compiled_once(@TempDir Path folder) {
        int[] compiled = {0};
        KernelCompiler counting = new KernelCompiler() {
            @Override
            public String version() {
                return "counting 1";
            }

            @Override
            public Set<Integer> architectures() {
                return Set.of(90);
            }

            @Override
            public byte[] compile(CudaSource source, ComputeCapability architecture) {
                compiled[0]++;
                return new byte[] {1, 2, 3};
            }
        };
        for (int i = 0; i < 2; i++) {
            // two processes, as it were
            Kernels kernels = new Kernels(
                    new KernelCompilers(Optional.of(counting), "here", List.of()), new KernelCache(folder), 90);
            assertArrayEquals(new byte[] {1, 2, 3}, kernels.load(GOOD));
            assertArrayEquals(new byte[] {1, 2, 3}, kernels.load(GOOD.define("BY", 2)));
        }
        assertEquals(2, compiled[0]);
    }
}
