package dev.octet.trainer.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.trainer.kernel.CudaSource;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What ptxas says of kernels that move memory: with the launch bounds of the prelude none keeps a register in memory. Needs nvcc, no GPU. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class KernelSpillsTest {
    private static final Pattern KERNEL = Pattern.compile(
            "Compiling entry function '(\\w+)'.*?(\\d+) bytes spill stores, (\\d+) bytes spill loads.*?Used (\\d+)"
                    + " registers",
            Pattern.DOTALL);

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
    void kernels_of_fp8_updates_and_reductions_do_not_spill() throws Exception {
        check(Stream.of("fp8.cu", "update.cu", "reduce.cu", "softmax.cu", "gather.cu", "transpose.cu"));
    }

    private void check(Stream<String> files) throws IOException, InterruptedException {
        Optional<Nvcc> nvcc = Nvcc.find(Nvcc.places(System.getenv(), Path.of("/")));
        if (nvcc.isEmpty()) {
            throw Installed.skip("no nvcc");
        }
        List<String> wanted = files.toList();
        List<String> spills = new ArrayList<>();
        int kernels = 0;
        for (CudaSource source : CudaSources.all()) {
            if (wanted.contains(KernelCache.stem(source) + ".cu")) {
                Matcher kernel = KERNEL.matcher(told(nvcc.get().program(), source));
                while (kernel.find()) {
                    kernels++;
                    if (!kernel.group(2).equals("0") || !kernel.group(3).equals("0")) {
                        spills.add(source + " " + kernel.group(1) + ": " + kernel.group(2) + " bytes stored, "
                                + kernel.group(3) + " loaded, " + kernel.group(4) + " registers");
                    }
                }
            }
        }
        assertTrue(kernels >= wanted.size(), kernels + " kernels");
        assertEquals(List.of(), spills);
    }

    private String told(Path nvcc, CudaSource source) throws IOException, InterruptedException {
        Files.writeString(folder.resolve(CudaSource.PRELUDE), CudaSource.prelude());
        Path in = Files.writeString(folder.resolve("kernel.cu"), source.text());
        List<String> words = new ArrayList<>(List.of(
                nvcc.toString(),
                "-cubin",
                "-arch=sm_90a",
                "-Xptxas",
                "-v",
                "-I" + folder,
                "-o",
                folder.resolve("out").toString()));
        words.addAll(KernelCompiler.OPTIONS);
        words.addAll(KernelCompiler.macros(source));
        words.add(in.toString());
        Process process = new ProcessBuilder(words).redirectErrorStream(true).start();
        String text = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), text);
        return text;
    }
}
