package dev.octet.quant.gptq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.Quantizer;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.QuantizedTensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.SplittableRandom;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class BoundedPairsTest {
    private static final int IN = 95; // odd: the last input has no neighbour
    private static final int OUT = 40;

    private final Arena arena = Arena.ofShared();

    @AfterEach
    void close() {
        arena.close();
    }

    private static OperandSpec spec(boolean outIn) {
        return OperandSpec.fromValues(QuantType.INT8, new Granularity.PerChannel(outIn ? 0 : 1));
    }

    /** Evenly spread weights, of which every eighth pair is too large. */
    private Tensor weight(boolean outIn) {
        Tensor w =
                Tensor.allocate(arena, new TensorSpec("w", DType.F32, outIn ? Shape.of(OUT, IN) : Shape.of(IN, OUT)));
        SplittableRandom random = new SplittableRandom(5);
        for (int o = 0; o < OUT; o++) {
            for (int i = 0; i < IN; i++) {
                long at = outIn ? (long) o * IN + i : (long) i * OUT + o;
                w.bytes().setAtIndex(Tensor.F32_LE, at, (float) (random.nextDouble() * 2 - 1));
            }
        }
        return w;
    }

    private static SecondMoment moment() {
        SecondMoment moment = new SecondMoment(IN);
        SplittableRandom random = new SplittableRandom(7);
        float[] row = new float[IN];
        for (int r = 0; r < 300; r++) {
            float before = 0;
            for (int i = 0; i < IN; i++) {
                before = (float) (0.8 * before + random.nextGaussian());
                row[i] = before;
            }
            moment.add(MemorySegment.ofArray(row));
        }
        return moment;
    }

    private static int code(QuantizedTensor q, boolean outIn, int o, int i) {
        return q.codes().get(ValueLayout.JAVA_BYTE, outIn ? (long) o * IN + i : (long) i * OUT + o);
    }

    /** What {@code vpmaddubsw} saturates: the sum of the products of two neighbours with the worst activations from 0 to 255. */
    private static boolean saturates(QuantizedTensor q, boolean outIn) {
        boolean any = false;
        for (int o = 0; o < OUT; o++) {
            for (int i = 0; i + 1 < IN; i += 2) {
                int a = code(q, outIn, o, i);
                int b = code(q, outIn, o, i + 1);
                int most = 255 * Math.max(a, 0) + 255 * Math.max(b, 0);
                int least = 255 * Math.min(a, 0) + 255 * Math.min(b, 0);
                any |= most > Short.MAX_VALUE || least < Short.MIN_VALUE;
            }
        }
        return any;
    }

    private double error(Tensor w, QuantizedTensor q) {
        Tensor back = Quantizer.sequential().dequantize(q, DType.F32, arena);
        double sum = 0;
        for (long i = 0; i < w.shape().elementCount(); i++) {
            double e = (double) w.bytes().getAtIndex(Tensor.F32_LE, i)
                    - back.bytes().getAtIndex(Tensor.F32_LE, i);
            sum += e * e;
        }
        return sum;
    }

    @ParameterizedTest(name = "[out, in] {0}")
    @ValueSource(booleans = {true, false})
    void bounded_weights_never_saturate_and_lose_less_than_seven_bits(boolean outIn) {
        Tensor w = weight(outIn);
        QuantizedTensor plain =
                Quantizer.sequential().quantize(w, spec(outIn), arena).orElseThrow();
        assertTrue(saturates(plain, outIn));
        assertTrue(BoundedPairs.beyond(plain, outIn) > 0);
        QuantizedTensor bounded = BoundedPairs.nearest(w, outIn, spec(outIn), 2, arena);
        assertTrue(!saturates(bounded, outIn));
        assertEquals(0, BoundedPairs.beyond(bounded, outIn));
        double sevenBits = 0;
        for (int o = 0; o < OUT; o++) {
            float amax = 0;
            for (int i = 0; i < IN; i++) {
                amax = Math.max(amax, Math.abs(w.bytes().getAtIndex(Tensor.F32_LE, outIn ? o * IN + i : i * OUT + o)));
            }
            double scale = amax / 64; // ONNX Runtime's reduce_range: -64 .. 64
            for (int i = 0; i < IN; i++) {
                double x = w.bytes().getAtIndex(Tensor.F32_LE, outIn ? o * IN + i : i * OUT + o);
                double e = x - Math.clamp(Math.rint(x / scale), -64, 64) * scale;
                sevenBits += e * e;
            }
        }
        assertTrue(error(w, bounded) <= sevenBits, error(w, bounded) + " > " + sevenBits);
    }

    @ParameterizedTest(name = "[out, in] {0}")
    @ValueSource(booleans = {true, false})
    void compensation_keeps_within_the_bound_and_is_better_than_rounding_to_nearest_within_it(boolean outIn) {
        Tensor w = weight(outIn);
        OperandSpec searched = spec(outIn).scaledBy(BoundedPairs.SCALES, DType.F32);
        GptqResult.Done done = (GptqResult.Done) Gptq.parallel(2)
                .quantize(w, outIn, moment(), searched, GptqOptions.defaults().withBoundedPairs(), arena);
        assertTrue(!saturates(done.tensor(), outIn));
        // about 0.5 without the bound; 0.9 leaves room for the pairs that give way
        assertTrue(done.error() < 0.9 * done.nearestError(), done.error() + " of " + done.nearestError());
    }

    @Test
    void a_bounded_grid_keeps_scales_and_zero_points() {
        ChannelTile.Grid grid = new ChannelTile.Grid() {
            @Override
            public float scale(long channel, int input) {
                return channel + input / 8f;
            }

            @Override
            public int zeroPoint(long channel, int input) {
                return (int) channel - input;
            }
        };
        ChannelTile.Grid bounded = ChannelTile.Grid.bounded(grid);
        assertTrue(bounded.boundsPairs() && !grid.boundsPairs());
        assertEquals(3.25f, bounded.scale(3, 2));
        assertEquals(1, bounded.zeroPoint(3, 2));
    }

    @Test
    void a_pair_of_one_sign_is_bounded_and_one_of_two_signs_is_not() {
        for (int a = -127; a <= 127; a++) {
            for (int b = -127; b <= 127; b++) {
                MemorySegment codes = MemorySegment.ofArray(new byte[] {(byte) a, (byte) b});
                BoundedPairs.bound(codes, new double[] {1, 3});
                int x = codes.get(ValueLayout.JAVA_BYTE, 0);
                int y = codes.get(ValueLayout.JAVA_BYTE, 1);
                boolean fits = (long) a * b <= 0 || Math.abs(a) + Math.abs(b) <= BoundedPairs.MOST;
                assertEquals(fits ? a + b : Integer.signum(a) * BoundedPairs.MOST, x + y);
                assertTrue(x * a >= 0 && y * b >= 0 && Math.abs(x) <= Math.abs(a) && Math.abs(y) <= Math.abs(b));
                assertTrue(fits == (x == a && y == b));
                int shared = BoundedPairs.shared(a, b);
                int left = BoundedPairs.bounded(b, shared);
                assertTrue((long) shared * left <= 0 || Math.abs(shared) + Math.abs(left) <= BoundedPairs.MOST);
            }
        }
    }
}
