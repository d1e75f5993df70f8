package dev.octet.trainer.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.trainer.kernel.CudaSource;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * What ptxas says of kernels: none that moves memory keeps a register there, and those of recorded training steps fit an H100's multiprocessor as they are
 * launched. Needs nvcc, no GPU.
 */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class KernelSpillsTest {
    private static final Pattern KERNEL = Pattern.compile(
            "Compiling entry function '(\\w+)'.*?(\\d+) bytes spill stores, (\\d+) bytes spill loads.*?Used (\\d+)"
                    + " registers([^\\n]*)",
            Pattern.DOTALL);

    private static final Pattern SHARED = Pattern.compile("(\\d+) bytes smem");

    /** Of a multiprocessor of compute capability 9.0 (CUDA programming guide, table of technical specifications). */
    private static final int REGISTERS = 65_536;

    /** Shared memory of a block at most, and without opt-in. */
    private static final int SHARED_BYTES = 227 << 10;

    private static final int PLAIN_SHARED_BYTES = 48 << 10;

    /** What ptxas said of a kernel. */
    private record Resources(int stored, int loaded, int registers, int sharedBytes) {}

    /** A kernel as a recorded step launches it. */
    private record Recorded(String source, String kernel, int threads, int sharedBytes) {
        /** Of a line of {@code testdata/golden/steps}. */
        static Recorded of(String[] fields) {
            Matcher grid = GRID.matcher(fields[4]);
            assertTrue(grid.find(), fields[4]);
            return new Recorded(fields[3], fields[2], Integer.parseInt(grid.group(1)), Integer.parseInt(grid.group(2)));
        }
    }

    private static final Pattern GRID = Pattern.compile("threads=(\\d+) shared=(\\d+)");

    @TempDir
    Path folder;

    /** Those that spilled before the launch bounds had a minimum. */
    @Test
    void casts_and_sums_of_gradients_do_not_spill() throws Exception {
        check(Stream.of("accumulate.cu", "cast.cu", "copy.cu"));
    }

    /** Half a minute of one core. */
    @Tag("sweep")
    @Test
    void kernels_of_fp8_experts_updates_and_reductions_do_not_spill() throws Exception {
        check(Stream.of(
                "fp8.cu",
                "update.cu",
                "reduce.cu",
                "softmax.cu",
                "gather.cu",
                "transpose.cu",
                "experts.cu",
                "grouped.cu"));
    }

    @Test
    void a_kernel_that_spills_is_found() throws Exception {
        Map<String, Resources> found = resources(told(nvcc(), CudaSource.of(KernelSpillsTest.class, "spills.cu")));
        Resources of = Objects.requireNonNull(found.get("spills"));
        assertTrue(of.stored() > 0 && of.loaded() > 0, found.toString());
        assertEquals(64, of.registers());
        assertEquals(4096, of.sharedBytes());
    }

    /** GPT-2, ViT-Huge, BERT and Llama in BF16 and FP8. Half a minute of two cores. */
    @Tag("sweep")
    @Test
    void kernels_of_recorded_steps_fit_a_multiprocessor_and_do_not_spill() throws Exception {
        Path nvcc = nvcc();
        List<Recorded> recorded = recorded();
        Map<String, CudaSource> sources = new TreeMap<>();
        for (String text : new TreeSet<>(recorded.stream().map(Recorded::source).toList())) {
            sources.put(text, source(text));
        }
        Map<String, Map<String, Resources>> compiled = new ConcurrentHashMap<>();
        sources.entrySet().parallelStream().forEach(e -> {
            try {
                compiled.put(e.getKey(), resources(told(nvcc, e.getValue())));
            } catch (IOException | InterruptedException x) {
                throw new IllegalStateException(e.getKey(), x);
            }
        });
        List<String> wrong = new ArrayList<>();
        for (Recorded r : recorded) {
            Resources of = compiled.getOrDefault(r.source(), Map.of()).get(r.kernel());
            if (of == null) {
                wrong.add(r + " is not compiled");
                continue;
            }
            long shared = (long) of.sharedBytes() + r.sharedBytes();
            if (of.stored() > 0 || of.loaded() > 0) {
                wrong.add(r + " spills: " + of);
            }
            // registers are given to warps in units of 256
            if (Math.ceilDiv(of.registers() * 32, 256) * 256 * (r.threads() / 32) > REGISTERS) {
                wrong.add(r + " takes more registers than there are: " + of);
            }
            if (shared > SHARED_BYTES
                    || (r.sharedBytes() <= LoadedKernels.PLAIN_SHARED_BYTES && shared > PLAIN_SHARED_BYTES)) {
                wrong.add(r + " takes more shared memory than it is given: " + of);
            }
        }
        assertTrue(recorded.size() > 80, recorded.size() + " kernels");
        assertEquals(List.of(), wrong);
    }

    private static List<Recorded> recorded() throws IOException {
        Path golden = Path.of(System.getProperty("octet.testdata")).resolve("golden/steps");
        Set<Recorded> all = new LinkedHashSet<>();
        try (Stream<Path> files = Files.list(golden)) {
            for (Path file : files.sorted().toList()) {
                for (String line : Files.readAllLines(file)) {
                    String[] fields = line.split("\t", -1);
                    if (fields[0].equals("kernel")) {
                        all.add(Recorded.of(fields));
                    }
                }
            }
        }
        return List.copyOf(all);
    }

    /** The source that {@link CudaSource#toString} writes so. */
    private static CudaSource source(String text) throws IOException {
        String[] words = text.split(" ", -1);
        Map<String, String> macros = new TreeMap<>();
        for (String macro : Arrays.asList(words).subList(1, words.length)) {
            int equals = macro.indexOf('=');
            macros.put(macro.substring(0, equals), macro.substring(equals + 1));
        }
        return CudaSources.all().stream()
                .filter(s -> ("/" + s.file()).endsWith("/" + words[0]))
                .findFirst()
                .orElseThrow()
                .with(macros);
    }

    private static Path nvcc() {
        return Nvcc.find(Nvcc.places(System.getenv(), Path.of("/")))
                .orElseThrow(() -> Installed.skip("no nvcc"))
                .program();
    }

    /** By kernel. */
    private static Map<String, Resources> resources(String told) {
        Map<String, Resources> resources = new TreeMap<>();
        Matcher kernel = KERNEL.matcher(told);
        while (kernel.find()) {
            Matcher shared = SHARED.matcher(kernel.group(5));
            resources.put(
                    kernel.group(1),
                    new Resources(
                            Integer.parseInt(kernel.group(2)),
                            Integer.parseInt(kernel.group(3)),
                            Integer.parseInt(kernel.group(4)),
                            shared.find() ? Integer.parseInt(shared.group(1)) : 0));
        }
        return resources;
    }

    private void check(Stream<String> files) throws IOException, InterruptedException {
        Path nvcc = nvcc();
        List<String> wanted = files.toList();
        List<String> spills = new ArrayList<>();
        int kernels = 0;
        for (CudaSource source : CudaSources.all()) {
            if (wanted.contains(KernelCache.stem(source) + ".cu")) {
                Map<String, Resources> resources = resources(told(nvcc, source));
                kernels += resources.size();
                resources.forEach((name, of) -> {
                    if (of.stored() > 0 || of.loaded() > 0) {
                        spills.add(source + " " + name + ": " + of);
                    }
                });
            }
        }
        assertTrue(kernels >= wanted.size(), kernels + " kernels");
        assertEquals(List.of(), spills);
    }

    private String told(Path nvcc, CudaSource source) throws IOException, InterruptedException {
        Path place = Files.createTempDirectory(folder, "kernel");
        Files.writeString(place.resolve(CudaSource.PRELUDE), CudaSource.prelude());
        Path in = Files.writeString(place.resolve("kernel.cu"), source.text());
        List<String> words = new ArrayList<>(List.of(
                nvcc.toString(),
                "-cubin",
                "-arch=sm_90a",
                "-Xptxas",
                "-v",
                "-I" + place,
                "-o",
                place.resolve("out").toString()));
        words.addAll(KernelCompiler.OPTIONS);
        words.addAll(KernelCompiler.macros(source));
        words.add(in.toString());
        Process process = new ProcessBuilder(words).redirectErrorStream(true).start();
        String text = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), text);
        return text;
    }
}
