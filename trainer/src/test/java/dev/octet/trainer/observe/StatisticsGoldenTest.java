package dev.octet.trainer.observe;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.ModelFile;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.Float8Format;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.fp8.CodedMatrix;
import dev.octet.trainer.precision.LinearModule;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Statistics of tensors are what torch finds by Transformer Engine's definitions ({@code testdata/make/debug_statistics.py}). */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class StatisticsGoldenTest {
    private static final Path FOLDER = Path.of(System.getProperty("octet.testdata", "../testdata"), "golden", "debug");

    /** One row of the table. */
    private record Row(
            String name,
            ObservedTensor tensor,
            Float8Format format,
            float quantScale,
            String statistic,
            double value,
            double coded) {
        static Row of(String line) {
            String[] cells = line.split(",", -1);
            return new Row(
                    cells[0],
                    requireNonNull(ObservedTensor.byLabel().get(cells[1])),
                    cells[2].equals("e4m3") ? Float8Format.E4M3FN : Float8Format.E5M2,
                    Float.parseFloat(cells[3]),
                    cells[4],
                    number(cells[5]),
                    number(cells[6]));
        }

        private static double number(String cell) {
            return cell.equals("inf") ? Double.POSITIVE_INFINITY : Double.parseDouble(cell);
        }
    }

    private static List<Row> rows(String name) throws IOException {
        return Files.readAllLines(FOLDER.resolve("statistics.csv")).stream()
                .skip(1)
                .map(Row::of)
                .filter(r -> r.name().equals(name))
                .toList();
    }

    /** Everything that can be asked of a tensor. */
    private static List<Feature.Reading> everything(ObservedTensor tensor) {
        boolean both = tensor != ObservedTensor.GRADIENT;
        List<TensorStatistic> all =
                new ArrayList<>(TensorStatistic.OfAll.byLabel().values());
        all.add(new TensorStatistic.MaxBlockwiseDynamicRange(32, 1, both));
        all.add(new TensorStatistic.MaxBlockwiseDynamicRange(32, 2, both));
        all.add(new TensorStatistic.MaxBlockwiseDynamicRange(16, 2, both));
        List<CastStatistic> casts = CastStatistic.byLabel().values().stream()
                .filter(s -> s.recipe().isPresent() || !s.columnwise())
                .toList();
        return List.of(
                new Feature.LogTensorStats(tensor, all, StepGate.ALWAYS),
                new Feature.LogFp8TensorStats(tensor, casts, StepGate.ALWAYS),
                new Feature.LogNvfp4TensorStats(
                        tensor, List.of(CastStatistic.Measure.UNDERFLOWS, CastStatistic.Measure.MSE), StepGate.ALWAYS));
    }

    private static DebugPlan.Layer layer(ObservedTensor tensor, boolean transB) {
        return new DebugPlan.Layer(
                new LinearModule("n", "m.weight", "m", transB),
                new DebugSection(
                        "s", new LayerSelection.Exact(List.of("m")), List.copyOf(everything(tensor)), "te.yaml"));
    }

    private static Map<String, Double> found(List<Row> rows, boolean parity, boolean turned) throws IOException {
        Row first = rows.getFirst();
        TensorBuffer buffer =
                new TensorBuffer(layer(first.tensor(), !turned), first.tensor(), everything(first.tensor()), parity);
        try (ModelFile file = ModelFile.open(FOLDER.resolve("statistics.safetensors"))) {
            for (int i = 0; file.model().tensors().get(first.name() + "." + i) != null; i++) {
                Tensor t = requireNonNull(file.model().tensors().get(first.name() + "." + i));
                Tensor lies = turned ? t.transposed(Arena.ofAuto()) : t;
                CpuTensor values = new CpuTensor(new OperandType(lies.dtype(), lies.shape()), lies.bytes());
                Sample sample = turned ? Sample.ofWeight(values, false) : Sample.of(values);
                CodedMatrix delayed = new CodedMatrix(first.format(), sample.blocks(new Granularity.PerTensor()), null);
                buffer.feed(sample, new LiveCast(delayed, delayed, first.quantScale()), i);
            }
        }
        return new LinkedHashMap<>(buffer.report().orElseThrow().values());
    }

    private static void check(List<Row> rows, Map<String, Double> found, boolean parity) {
        assertTrue(rows.size() > 30, "the table has rows of the case");
        for (Row row : rows) {
            double expected = parity ? row.coded() : row.value();
            Double value = requireNonNull(found.remove(row.statistic()), row.statistic());
            // both sum in F64, in another order; NVFP4 multiplies by a reciprocal here and there
            double tolerance = Math.abs(expected) * (row.statistic().contains("nvfp4") ? 1e-6 : 1e-9);
            assertEquals(
                    expected, value, Double.isFinite(tolerance) ? tolerance : 0, row.name() + " " + row.statistic());
        }
        assertEquals(Map.of(), found, "statistics without a row");
    }

    @ParameterizedTest
    @ValueSource(strings = {"outlier", "bf16", "tiny", "weight", "zeros"})
    void every_statistic_is_what_torch_finds(String name) throws IOException {
        List<Row> rows = rows(name);
        check(rows, found(rows, false, false), false);
    }

    @ParameterizedTest
    @ValueSource(strings = {"outlier", "bf16", "tiny", "weight", "zeros"})
    void in_parity_mode_it_is_what_transformer_engine_s_code_finds(String name) throws IOException {
        List<Row> rows = rows(name);
        check(rows, found(rows, true, false), true);
    }

    @Test
    void a_weight_that_lies_transposed_has_the_same_statistics() throws IOException {
        List<Row> rows = rows("weight");
        check(rows, found(rows, false, true), false);
    }

    @Test
    void of_a_weight_only_the_first_micro_batch_counts() {
        TensorBuffer buffer = new TensorBuffer(
                layer(ObservedTensor.WEIGHT, true),
                ObservedTensor.WEIGHT,
                List.of(new Feature.LogTensorStats(
                        ObservedTensor.WEIGHT, List.of(TensorStatistic.OfAll.MAX), StepGate.ALWAYS)),
                false);
        assertTrue(buffer.report().isEmpty());
        buffer.feed(Sample.of(CpuTensor.of(new float[] {1, 2})), LiveCast.NONE, 0);
        buffer.feed(Sample.of(CpuTensor.of(new float[] {3})), LiveCast.NONE, 1);
        assertEquals(Map.of("max", 2.0), buffer.report().orElseThrow().values());
        assertEquals("m_weight_max", buffer.report().orElseThrow().name("max"));
    }
}
