package dev.octet.quant.transform;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.formats.ModelFile;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.merge.WeightDelta;
import dev.octet.quant.merge.WeightGrid;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import java.io.IOException;
import java.nio.FloatBuffer;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Factors and clips next to those of {@code testdata/make/transforms.py}. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TransformFactorsTest {
    private static final int CHANNELS = 32;
    private static final WeightGrid GRID =
            new WeightGrid(OperandSpec.fromValues(QuantType.E2M1, new Granularity.PerGroup(-1, 16)), null);

    private static ModelFile golden;

    @BeforeAll
    static void open() throws IOException {
        golden = ModelFile.open(Path.of(System.getProperty("octet.testdata"), "golden/transform/factors.safetensors"));
    }

    @AfterAll
    static void close() {
        golden.close();
    }

    private static float[] floats(String name) {
        return golden.model().tensor(name).toFloats();
    }

    private static double[] doubles(String name) {
        Tensor t = golden.model().tensor(name);
        return IntStream.range(0, Math.toIntExact(t.shape().elementCount()))
                .mapToDouble(i -> t.bytes().getAtIndex(Tensor.F64_LE, i))
                .toArray();
    }

    private static float[] amaxOfColumns(String... names) {
        float[] amax = new float[CHANNELS];
        for (String name : names) {
            float[] all = floats(name);
            for (int i = 0; i < all.length; i++) {
                amax[i % CHANNELS] = Math.max(amax[i % CHANNELS], Math.abs(all[i]));
            }
        }
        return amax;
    }

    private static void assertClose(double[] expected, double[] actual, double tolerance) {
        assertEquals(expected.length, actual.length);
        for (int i = 0; i < expected.length; i++) {
            assertEquals(expected[i], actual[i], tolerance * Math.abs(expected[i]), "element " + i);
        }
    }

    @ParameterizedTest
    @ValueSource(doubles = {0.5, 0.9})
    void SmoothQuant_has_the_factors_of_the_reference(double alpha) {
        double[] factors = SmoothFactors.of(amaxOfColumns("x"), amaxOfColumns("w1", "w2"), alpha);
        // powers in double precision, of two libraries that round their last bits on their own
        assertClose(doubles("smooth." + alpha), factors, 1e-12);
    }

    private static SecondMoment moment() {
        SecondMoment moment = new SecondMoment(CHANNELS);
        moment.add(FloatBuffer.wrap(floats("x")));
        return moment;
    }

    private static AwqSearch.Reader reader(String name) {
        float[] all = floats(name);
        WeightDelta.Rows rows = (row, values) -> System.arraycopy(all, (int) row * CHANNELS, values, 0, CHANNELS);
        return new AwqSearch.Reader(rows, all.length / CHANNELS);
    }

    private static double[] means() {
        float[] x = floats("x");
        double[] means = new double[CHANNELS];
        int rows = x.length / CHANNELS;
        for (int i = 0; i < x.length; i++) {
            means[i % CHANNELS] += Math.abs(x[i]) / rows;
        }
        return means;
    }

    @ParameterizedTest
    @ValueSource(strings = {"plain", "duo"})
    void AWQ_has_the_errors_the_ratio_and_the_factors_of_the_reference(String kind) {
        AwqSearch.Found found = AwqSearch.search(new AwqSearch.Problem(
                kind.equals("duo"),
                means(),
                IntStream.range(0, CHANNELS).toArray(),
                moment(),
                List.of(reader("w1"), reader("w2")),
                GRID,
                2));
        // sums in double precision in another order
        assertClose(doubles(kind + ".losses"), found.losses(), 1e-9);
        assertEquals(doubles(kind + ".ratio")[0], found.ratio());
        // powers and means in double precision, in another order
        assertClose(doubles(kind + ".factors"), found.factors(), 1e-12);
    }

    @Test
    void AWQ_clips_groups_as_the_reference_does() {
        AwqClip clip = new AwqClip(GRID, 1, moment(), doubles("plain.factors"));
        float[] scaled = floats("scaled");
        float[] row = new float[CHANNELS];
        for (int r = 0; r < scaled.length / CHANNELS; r++) {
            System.arraycopy(scaled, r * CHANNELS, row, 0, CHANNELS);
            clip.apply(r, row);
            System.arraycopy(row, 0, scaled, r * CHANNELS, CHANNELS);
        }
        assertArrayEquals(floats("clipped"), scaled);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "smoothquant:1.5",
                "smoothquant:-0.1",
                "smoothquant:NaN",
                "smoothquant:",
                "awq:3",
                "turn",
                "rotate:x"
            })
    void a_transform_that_is_none_is_refused(String text) {
        assertThrows(InvalidOptionException.class, () -> Transform.parse(text));
    }
}
