package dev.octet.bench.gpu;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.bench.gpu.RecordedWork.Kernel;
import dev.octet.bench.gpu.RecordedWork.Product;
import dev.octet.bench.gpu.RecordedWork.Transfer;
import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaProduct.Matrix;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.op.fp8.CudaCodes;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * What training steps have a GPU do, compared with {@code testdata/golden/steps}: GPT-2 124M and ViT-Huge/14 as they are measured, BERT-base and Llama 3.2 1B.
 * {@code -Doctet.steps=write} writes the files anew.
 */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RecordedStepTest {
    private static final Path GOLDEN =
            Path.of(System.getProperty("octet.testdata")).resolve("golden/steps");
    /** Sums of weights' gradients are longer than those of all others. */
    private static final int FEWEST_TOKENS = 16_000;

    private static final boolean WRITE = "write".equals(System.getProperty("octet.steps"));
    private static final Map<String, RecordedStep> RECORDED = new ConcurrentHashMap<>();

    @TempDir
    static Path folder;

    private static RecordedStep step(String model, String precision) {
        return RECORDED.computeIfAbsent(model + "-" + precision, name -> {
            try {
                return RecordedStep.of(
                        model, precision, Subject.of(model).batch(), Files.createTempDirectory(folder, name));
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        });
    }

    @ParameterizedTest
    @CsvSource({
        "gpt2,bf16",
        "gpt2,fp8",
        "vit-huge,bf16",
        "vit-huge,fp8",
        "vit-huge,block",
        "gpt2,block",
        "bert,bf16",
        "bert,fp8",
        "llama,bf16",
        "llama,fp8"
    })
    void a_step_is_what_its_file_says(String model, String precision) throws IOException {
        RecordedStep step = step(model, precision);
        Path file = GOLDEN.resolve(model + "-" + precision + ".tsv");
        if (WRITE) {
            Files.createDirectories(GOLDEN);
            Files.writeString(file, step.text());
        }
        List<String> lines = Files.readAllLines(file);
        Map<String, Long> before = lines.stream()
                .map(l -> l.split("\t", -1))
                .filter(f -> f[0].equals("size"))
                .collect(Collectors.toMap(f -> f[1], f -> Long.parseLong(f[2])));
        for (String what : List.of("nodes", "unaligned products", "peak bytes")) {
            long now = step.sizes().getOrDefault(what, 0L);
            long then = before.getOrDefault(what, 0L);
            assertTrue(now <= then, step.name() + ": " + what + " grew from " + then + " to " + now);
        }
        assertEquals(
                String.join("\n", lines),
                step.text().strip(),
                "the step of " + step.name()
                        + " has changed; if that is meant, run this test with -Doctet.steps=write and commit " + file);
    }

    @ParameterizedTest
    @CsvSource({"gpt2,bf16", "gpt2,fp8", "vit-huge,bf16", "vit-huge,fp8", "bert,bf16", "llama,fp8"})
    void a_step_is_one_graph(String model, String precision) {
        RecordedStep step = step(model, precision);
        assertEquals(1, step.graphs());
        assertEquals(0, step.alone());
    }

    @ParameterizedTest
    @ValueSource(strings = {"bf16", "fp8"})
    void no_product_of_gpt2_has_rows_that_are_not_aligned(String precision) {
        assertEquals(
                List.of(),
                step("gpt2", precision).unaligned().stream().map(Product::text).toList());
    }

    /** The vocabulary of 50257 is no multiple of 16: its rows are padded, not widened. */
    @ParameterizedTest
    @ValueSource(strings = {"gpt2", "llama"})
    void all_products_in_fp8_are_of_codes_those_of_the_head_too(String model) {
        List<Product> products = step(model, "fp8").products();
        assertFalse(products.isEmpty());
        assertEquals(
                List.of(),
                products.stream()
                        .filter(p -> !p.product().isFp8())
                        .map(Product::text)
                        .toList());
    }

    /** Its texts have an attention mask of ones, which costs a bit for each key. */
    @ParameterizedTest
    @ValueSource(strings = {"bf16", "fp8"})
    void a_mask_of_ones_does_not_cost_a_look_at_each_score(String precision) {
        List<Kernel> flash = step("gpt2", precision).kernels().stream()
                .filter(k -> k.name().startsWith("flash_"))
                .toList();
        assertEquals(36, flash.size());
        for (Kernel k : flash) {
            Map<String, String> macros = k.source().defines();
            assertTrue("0".equals(macros.get("MASKED")) || "1".equals(macros.get("KEYWISE")), k.text());
        }
    }

    /** Codes lie in memory in one form at a time, and those of the logits' gradient where other steps have theirs. */
    @ParameterizedTest
    @ValueSource(strings = {"gpt2", "vit-huge", "bert", "llama"})
    void a_step_in_fp8_takes_less_memory_than_in_bf16(String model) {
        long fp8 = step(model, "fp8").peakBytes();
        long bf16 = step(model, "bf16").peakBytes();
        assertTrue(fp8 < bf16, fp8 + " bytes in FP8, " + bf16 + " in BF16");
    }

    /** Which in FP8 quantises what comes out. */
    @ParameterizedTest
    @ValueSource(strings = {"bf16", "fp8"})
    void a_gated_mlp_is_a_launch_between_its_linears_and_one_backward(String precision) {
        Map<String, Long> runs = step("llama", precision).kernels().stream()
                .map(k -> k.name().replaceFirst("_bf16.*", ""))
                .filter(n -> n.matches("(gated|unary_backward|binary_backward|accumulate|product)_?.*"))
                .collect(Collectors.groupingBy(n -> n, Collectors.counting()));
        assertEquals(
                precision.equals("fp8")
                        ? Map.of("gated_transpose", 16L, "gated_gradient_transpose", 16L)
                        : Map.of("gated_forward", 16L, "gated_backward", 16L),
                runs);
    }

    /** Their casts and turns are one launch for the queries and one for the keys, forward and backward. */
    @ParameterizedTest
    @ValueSource(strings = {"bf16", "fp8"})
    void rotary_positions_read_and_write_narrow_numbers(String precision) {
        List<Kernel> turns = step("llama", precision).kernels().stream()
                .filter(k -> k.name().equals("rotary_turn"))
                .toList();
        assertEquals(4 * 16, turns.size());
        for (Kernel k : turns) {
            Map<String, String> macros = k.source().defines();
            assertEquals("bf16 bf16", macros.get("X_TYPE") + " " + macros.get("Y_TYPE"));
        }
    }

    /** Which are twice as large as the weights; new memory has zeros already. */
    @ParameterizedTest
    @ValueSource(strings = {"gpt2", "vit-huge"})
    void moments_of_zeros_are_not_copied_to_the_gpu(String model) {
        long weights = 4 * Subject.of(model).model().parameters();
        long written = step(model, "fp8").writtenBytes();
        assertTrue(written > weights && written < 1.05 * weights, written + " bytes, " + weights + " of weights");
    }

    @ParameterizedTest
    @CsvSource({"gpt2,bf16", "gpt2,fp8", "vit-huge,fp8", "llama,bf16"})
    void arguments_have_the_names_of_their_kernels_parameters(String model, String precision) {
        List<String> unknown = step(model, precision).kernels().stream()
                .filter(k -> k.parameters().isEmpty())
                .map(Kernel::name)
                .distinct()
                .filter(name -> !name.startsWith("reduce_")) // parameters by a macro
                .toList();
        assertEquals(List.of(), unknown);
    }

    @Test
    void parameters_of_a_kernel_made_by_macros_have_the_types_of_its_name() {
        List<KernelSignature.Parameter> found = KernelSignature.of(
                CudaSource.of(CudaCodes.class, "fp8.cu").part("cast_amax_bf16_e4m3"), "cast_amax_bf16_e4m3");
        assertEquals(
                List.of("x 2", "codes 1", "n 8", "quant_scale 4", "scale 4", "amax 4"),
                found.stream().map(p -> p.name() + " " + p.width()).toList());
        assertTrue(found.getFirst().pointer());
        assertFalse(found.get(2).pointer());
    }

    /** The first micro-batch overwrites what products make: norms' gradients alone, and tables' that no product has, begin with zeros. */
    @ParameterizedTest
    @CsvSource({"gpt2,bf16", "gpt2,fp8", "vit-huge,fp8", "llama,fp8"})
    void gradients_of_weights_are_neither_zeroed_nor_read(String model, String precision) {
        RecordedStep step = step(model, precision);
        long zeroed = step.works().stream()
                .filter(w -> w instanceof Transfer t && t.isMemset())
                .mapToLong(w -> ((Transfer) w).bytes())
                .sum();
        long gradients = 4 * Subject.of(model).model().parameters();
        long table = model.equals("gpt2") ? 4 * 1024 * 768 : 0; // of positions
        assertTrue(zeroed <= 0.04 * gradients + table, zeroed + " bytes of " + gradients);
        assertEquals(
                List.of(),
                step.products().stream()
                        .filter(p -> p.product().accumulate() && p.product().k() > FEWEST_TOKENS)
                        .map(Product::text)
                        .toList());
    }

    /** Of biases' and norms' gradients; what makes a launch another one is how many parts there are: those of narrow Linears are fewer, or more. */
    @ParameterizedTest
    @CsvSource({"gpt2,fp8", "vit-huge,fp8", "bert,fp8", "llama,fp8", "vit-huge,bf16"})
    void sums_of_parts_share_a_few_launches(String model, String precision) {
        List<String> names =
                step(model, precision).kernels().stream().map(Kernel::name).toList();
        long joins = names.stream().filter("column_joins"::equals).count();
        assertTrue(joins >= 1 && joins <= 4, joins + " launches");
        assertEquals(
                0,
                names.stream().filter(n -> n.matches("norm_(weights|biases)")).count());
    }

    @ParameterizedTest
    @ValueSource(strings = {"gpt2", "vit-huge"})
    void biases_are_rounded_in_one_launch(String model) {
        assertEquals(
                1,
                step(model, "fp8").kernels().stream()
                        .filter(k -> k.name().equals("round_rows"))
                        .count());
    }

    @Test
    void a_product_with_rows_of_an_odd_length_is_written_down_as_unaligned() {
        Product odd = new Product(CudaProduct.of(
                false,
                true,
                32,
                33,
                64,
                Matrix.of(256, DType.BF16, 64),
                Matrix.of(512, DType.BF16, 64),
                Matrix.of(1024, DType.F32, 33)));
        assertFalse(odd.isAligned());
        assertEquals("product\tbf16*bf16>f32\tNT\tm=32 n=33 k=64\tleading=64,64,33\tbatch=1 unaligned", odd.text());
    }
}
