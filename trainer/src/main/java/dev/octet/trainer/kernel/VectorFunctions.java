package dev.octet.trainer.kernel;

import static dev.octet.trainer.kernel.FunctionConstants.*;

import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * Vector implementation, with the formulas of {@link ScalarFunctions}, which also processes the elements that do not fill a vector. Loading
 * this class requires the module {@code jdk.incubator.vector}.
 */
@SuppressWarnings("ReferenceEquality") // identity of arrays, not equality
final class VectorFunctions implements ElementaryFunctions {
    private static final VectorSpecies<Float> FLOATS = FloatVector.SPECIES_PREFERRED;
    private static final int LANES = FLOATS.length();

    /** For the elements that do not fill a vector. */
    private static final ElementaryFunctions SINGLE = new ScalarFunctions();

    /**
     * Sum of the lanes, by repeated halving. (The order of {@code reduceLanes(ADD)} is unspecified and differs before and after JIT
     * compilation: the same step would give different bits later in a run.)
     */
    private static float total(float[] lanes) {
        for (int width = lanes.length / 2; width > 0; width /= 2) {
            for (int i = 0; i < width; i++) {
                lanes[i] += lanes[i + width];
            }
        }
        return lanes[0];
    }

    /** A loop over consecutive elements: {@code y = f(x, y)}. The length is a multiple of the vector length. */
    @FunctionalInterface
    private interface Pass {
        void run(float[] x, int from, float[] y, int to, int n);
    }

    private static final Pass EXPONENTIAL = VectorFunctions::raised;
    private static final Pass[] TANH = {VectorFunctions::twiceMagnitude, EXPONENTIAL, VectorFunctions::tanhOfRun};
    private static final Pass[] ERF = {VectorFunctions::logErfc, EXPONENTIAL, VectorFunctions::erfOfRun};
    private static final Pass[] SIGMOID = {VectorFunctions::negative, EXPONENTIAL, VectorFunctions::sigmoidOfRun};
    private static final Pass[] SOFTPLUS = {
        VectorFunctions::negativeMagnitude, EXPONENTIAL, VectorFunctions::softplusOfRun
    };

    /**
     * Functions that combine an exponential with polynomials, as three loops over elements that fit the first-level cache: the exponent,
     * the exponential, the rest.
     *
     * <p>Each loop is written out in full. The JIT compiler does not always inline our own methods that take or return vectors (a large
     * caller has used up its inlining budget); the vectors then become objects, which is about ten times slower. Methods of the Vector API
     * are always inlined.
     */
    private static void inPasses(Pass[] passes, float[] x, int from, float[] y, int to, int n) {
        // the first pass overwrites elements that the last one reads
        float[] kept = x == y ? Arrays.copyOfRange(x, from, from + n) : x;
        int start = x == y ? 0 : from;
        for (Pass pass : passes) {
            pass.run(kept, start, y, to, n);
        }
    }

    private static void raised(float[] x, int from, float[] y, int to, int n) {
        FloatVector log2E = FloatVector.broadcast(FLOATS, LOG2_E);
        FloatVector rounder = FloatVector.broadcast(FLOATS, ROUNDER);
        FloatVector ln2Low = FloatVector.broadcast(FLOATS, -LN2_LOW);
        FloatVector ln2High = FloatVector.broadcast(FLOATS, -LN2_HIGH);
        FloatVector p0 = FloatVector.broadcast(FLOATS, EXP_0);
        FloatVector p1 = FloatVector.broadcast(FLOATS, EXP_1);
        FloatVector p2 = FloatVector.broadcast(FLOATS, EXP_2);
        FloatVector p3 = FloatVector.broadcast(FLOATS, EXP_3);
        FloatVector p4 = FloatVector.broadcast(FLOATS, EXP_4);
        for (int i = to; i < to + n; i += LANES) {
            FloatVector v = FloatVector.fromArray(FLOATS, y, i);
            // elements that become 0 are skipped: underflow is about a hundred times slower on processors, and half of
            // a causal mask underflows
            VectorMask<Float> zero = v.lt(EXP_LOWEST);
            FloatVector bounded = v.blend(EXP_HIGHEST, v.compare(VectorOperators.GT, EXP_HIGHEST))
                    .blend(0f, zero);
            FloatVector shifted = bounded.fma(log2E, rounder);
            IntVector k = shifted.reinterpretAsInts().sub(ROUNDER_BITS);
            FloatVector m = shifted.sub(ROUNDER);
            FloatVector r = m.fma(ln2Low, m.fma(ln2High, bounded));
            FloatVector p = p4.fma(r, p3)
                    .fma(r, p2)
                    .fma(r, p1)
                    .fma(r, p0)
                    .fma(r.mul(r), r)
                    .add(1f);
            IntVector half = k.lanewise(VectorOperators.ASHR, 1);
            FloatVector first = half.add(127).lanewise(VectorOperators.LSHL, 23).reinterpretAsFloats();
            FloatVector second =
                    k.sub(half).add(127).lanewise(VectorOperators.LSHL, 23).reinterpretAsFloats();
            p.mul(first).mul(second).blend(0f, zero).intoArray(y, i);
        }
    }

    private static void logOfRun(float[] x, int from, float[] y, int to, int n) {
        FloatVector p7 = FloatVector.broadcast(FLOATS, LOG_7);
        FloatVector ln2Low = FloatVector.broadcast(FLOATS, LN2_LOW);
        FloatVector ln2High = FloatVector.broadcast(FLOATS, LN2_HIGH);
        for (int i = 0; i < n; i += LANES) {
            FloatVector v = FloatVector.fromArray(FLOATS, x, from + i);
            VectorMask<Float> subnormal = v.lt(SMALLEST_NORMAL);
            IntVector bits = v.mul(TWO_23, subnormal).reinterpretAsInts();
            IntVector exponent = bits.sub(SQRT_HALF_BITS).lanewise(VectorOperators.ASHR, 23);
            FloatVector f = bits.sub(exponent.lanewise(VectorOperators.LSHL, 23))
                    .reinterpretAsFloats()
                    .sub(1f);
            FloatVector e = ((FloatVector) exponent.convert(VectorOperators.I2F, 0)).sub(23f, subnormal);
            FloatVector p = p7.fma(f, FloatVector.broadcast(FLOATS, LOG_6))
                    .fma(f, FloatVector.broadcast(FLOATS, LOG_5))
                    .fma(f, FloatVector.broadcast(FLOATS, LOG_4))
                    .fma(f, FloatVector.broadcast(FLOATS, LOG_3))
                    .fma(f, FloatVector.broadcast(FLOATS, LOG_2))
                    .fma(f, FloatVector.broadcast(FLOATS, LOG_1))
                    .fma(f, FloatVector.broadcast(FLOATS, LOG_0));
            FloatVector z = f.mul(f);
            FloatVector l = e.fma(ln2Low, f.mul(z).mul(p));
            l = z.fma(FloatVector.broadcast(FLOATS, -0.5f), l);
            l = e.fma(ln2High, f.add(l));
            l.blend(Float.POSITIVE_INFINITY, v.eq(Float.POSITIVE_INFINITY))
                    .blend(Float.NaN, v.compare(VectorOperators.GE, 0f).not())
                    .blend(Float.NEGATIVE_INFINITY, v.eq(0f))
                    .intoArray(y, to + i);
        }
    }

    private static void minus(float[] x, int from, float shift, float[] y, int to, int n) {
        for (int i = 0; i < n; i += LANES) {
            FloatVector.fromArray(FLOATS, x, from + i).sub(shift).intoArray(y, to + i);
        }
    }

    private static void twiceMagnitude(float[] x, int from, float[] y, int to, int n) {
        for (int i = 0; i < n; i += LANES) {
            FloatVector.fromArray(FLOATS, x, from + i).abs().mul(2f).intoArray(y, to + i);
        }
    }

    private static void negative(float[] x, int from, float[] y, int to, int n) {
        for (int i = 0; i < n; i += LANES) {
            FloatVector.fromArray(FLOATS, x, from + i).neg().intoArray(y, to + i);
        }
    }

    private static void negativeMagnitude(float[] x, int from, float[] y, int to, int n) {
        for (int i = 0; i < n; i += LANES) {
            FloatVector.fromArray(FLOATS, x, from + i).abs().neg().intoArray(y, to + i);
        }
    }

    /** log(1 - erf |x|), for |x| >= 1. */
    private static void logErfc(float[] x, int from, float[] y, int to, int n) {
        FloatVector p6 = FloatVector.broadcast(FLOATS, ERFC_6);
        for (int i = 0; i < n; i += LANES) {
            FloatVector a = FloatVector.fromArray(FLOATS, x, from + i).abs();
            FloatVector t = a.blend(ERF_ONE, a.compare(VectorOperators.GT, ERF_ONE));
            p6.fma(t, FloatVector.broadcast(FLOATS, ERFC_5))
                    .fma(t, FloatVector.broadcast(FLOATS, ERFC_4))
                    .fma(t, FloatVector.broadcast(FLOATS, ERFC_3))
                    .fma(t, FloatVector.broadcast(FLOATS, ERFC_2))
                    .fma(t, FloatVector.broadcast(FLOATS, ERFC_1))
                    .fma(t, FloatVector.broadcast(FLOATS, ERFC_0))
                    .add(t)
                    .neg()
                    .intoArray(y, to + i);
        }
    }

    /** tanh from e^2|x|. */
    private static void tanhOfRun(float[] x, int from, float[] y, int to, int n) {
        FloatVector p4 = FloatVector.broadcast(FLOATS, TANH_4);
        FloatVector one = FloatVector.broadcast(FLOATS, 1f);
        FloatVector two = FloatVector.broadcast(FLOATS, 2f);
        for (int i = 0; i < n; i += LANES) {
            FloatVector v = FloatVector.fromArray(FLOATS, x, from + i);
            FloatVector s = v.mul(v);
            FloatVector small = p4.fma(s, FloatVector.broadcast(FLOATS, TANH_3))
                    .fma(s, FloatVector.broadcast(FLOATS, TANH_2))
                    .fma(s, FloatVector.broadcast(FLOATS, TANH_1))
                    .fma(s, FloatVector.broadcast(FLOATS, TANH_0))
                    .mul(s)
                    .fma(v, v);
            FloatVector large =
                    one.sub(two.div(FloatVector.fromArray(FLOATS, y, to + i).add(1f)));
            large.reinterpretAsInts()
                    .or(v.reinterpretAsInts().and(Integer.MIN_VALUE))
                    .reinterpretAsFloats()
                    .blend(small, v.abs().lt(TANH_SMALL))
                    .intoArray(y, to + i);
        }
    }

    /** erf from e^{@link #logErfc}. */
    private static void erfOfRun(float[] x, int from, float[] y, int to, int n) {
        FloatVector p6 = FloatVector.broadcast(FLOATS, ERF_6);
        FloatVector one = FloatVector.broadcast(FLOATS, 1f);
        for (int i = 0; i < n; i += LANES) {
            FloatVector v = FloatVector.fromArray(FLOATS, x, from + i);
            FloatVector s = v.mul(v);
            FloatVector small = p6.fma(s, FloatVector.broadcast(FLOATS, ERF_5))
                    .fma(s, FloatVector.broadcast(FLOATS, ERF_4))
                    .fma(s, FloatVector.broadcast(FLOATS, ERF_3))
                    .fma(s, FloatVector.broadcast(FLOATS, ERF_2))
                    .fma(s, FloatVector.broadcast(FLOATS, ERF_1))
                    .fma(s, FloatVector.broadcast(FLOATS, ERF_0))
                    .fma(v, v);
            one.sub(FloatVector.fromArray(FLOATS, y, to + i))
                    .reinterpretAsInts()
                    .or(v.reinterpretAsInts().and(Integer.MIN_VALUE))
                    .reinterpretAsFloats()
                    .blend(small, v.abs().lt(ERF_SMALL))
                    .intoArray(y, to + i);
        }
    }

    /** sigmoid from e^-x. */
    private static void sigmoidOfRun(float[] x, int from, float[] y, int to, int n) {
        FloatVector one = FloatVector.broadcast(FLOATS, 1f);
        for (int i = to; i < to + n; i += LANES) {
            one.div(FloatVector.fromArray(FLOATS, y, i).add(1f)).intoArray(y, i);
        }
    }

    /** log(1 + e^x) from u = e^-|x|. */
    private static void softplusOfRun(float[] x, int from, float[] y, int to, int n) {
        FloatVector p4 = FloatVector.broadcast(FLOATS, LOG1P_4);
        FloatVector zero = FloatVector.zero(FLOATS);
        for (int i = 0; i < n; i += LANES) {
            FloatVector v = FloatVector.fromArray(FLOATS, x, from + i);
            FloatVector u = FloatVector.fromArray(FLOATS, y, to + i);
            FloatVector s = u.div(u.add(2f));
            FloatVector z = s.mul(s);
            FloatVector p = p4.fma(z, FloatVector.broadcast(FLOATS, LOG1P_3))
                    .fma(z, FloatVector.broadcast(FLOATS, LOG1P_2))
                    .fma(z, FloatVector.broadcast(FLOATS, LOG1P_1))
                    .fma(z, FloatVector.broadcast(FLOATS, LOG1P_0));
            s.mul(z)
                    .fma(p, s.mul(2f))
                    .add(zero.blend(v, v.compare(VectorOperators.GT, 0f)))
                    .intoArray(y, to + i);
        }
    }

    @Override
    public void exp(float[] x, int from, float[] y, int to, int n) {
        int whole = n - n % LANES;
        System.arraycopy(x, from, y, to, whole);
        raised(x, from, y, to, whole);
        SINGLE.exp(x, from + whole, y, to + whole, n - whole);
    }

    @Override
    public float expOfDifference(float[] x, int from, float shift, float[] y, int to, int n) {
        int whole = n - n % LANES;
        minus(x, from, shift, y, to, whole);
        raised(x, from, y, to, whole);
        float sum = sum(y, to, whole);
        for (int i = whole; i < n; i++) {
            y[to + i] = ScalarFunctions.exp(x[from + i] - shift);
            sum += y[to + i];
        }
        return sum;
    }

    @Override
    public void log(float[] x, int from, float[] y, int to, int n) {
        int whole = n - n % LANES;
        logOfRun(x, from, y, to, whole);
        SINGLE.log(x, from + whole, y, to + whole, n - whole);
    }

    @Override
    public void tanh(float[] x, int from, float[] y, int to, int n) {
        int whole = n - n % LANES;
        inPasses(TANH, x, from, y, to, whole);
        SINGLE.tanh(x, from + whole, y, to + whole, n - whole);
    }

    @Override
    public void erf(float[] x, int from, float[] y, int to, int n) {
        int whole = n - n % LANES;
        inPasses(ERF, x, from, y, to, whole);
        SINGLE.erf(x, from + whole, y, to + whole, n - whole);
    }

    @Override
    public void sigmoid(float[] x, int from, float[] y, int to, int n) {
        int whole = n - n % LANES;
        inPasses(SIGMOID, x, from, y, to, whole);
        SINGLE.sigmoid(x, from + whole, y, to + whole, n - whole);
    }

    @Override
    public void softplus(float[] x, int from, float[] y, int to, int n) {
        int whole = n - n % LANES;
        inPasses(SOFTPLUS, x, from, y, to, whole);
        SINGLE.softplus(x, from + whole, y, to + whole, n - whole);
    }

    @Override
    public void select(float[] mask, float[] a, float[] b, float[] y, int n) {
        int i = 0;
        for (; i <= n - LANES; i += LANES) {
            VectorMask<Float> takesB = FloatVector.fromArray(FLOATS, mask, i).compare(VectorOperators.LE, 0f);
            FloatVector.fromArray(FLOATS, a, i)
                    .blend(FloatVector.fromArray(FLOATS, b, i), takesB)
                    .intoArray(y, i);
        }
        for (; i < n; i++) {
            y[i] = mask[i] <= 0 ? b[i] : a[i];
        }
    }

    @Override
    public void add(float[] from, int first, float[] to, int at, int n) {
        int i = 0;
        for (; i <= n - LANES; i += LANES) {
            FloatVector.fromArray(FLOATS, to, at + i)
                    .add(FloatVector.fromArray(FLOATS, from, first + i))
                    .intoArray(to, at + i);
        }
        for (; i < n; i++) {
            to[at + i] += from[first + i];
        }
    }

    @Override
    public float sum(float[] x, int from, int n) {
        FloatVector sums = FloatVector.zero(FLOATS);
        int i = 0;
        for (; i <= n - LANES; i += LANES) {
            sums = sums.add(FloatVector.fromArray(FLOATS, x, from + i));
        }
        float sum = total(sums.toArray());
        for (; i < n; i++) {
            sum += x[from + i];
        }
        return sum;
    }

    @Override
    public float max(float[] x, int from, int n) {
        FloatVector largest = FloatVector.broadcast(FLOATS, Float.NEGATIVE_INFINITY);
        int i = 0;
        for (; i <= n - LANES; i += LANES) {
            largest = largest.max(FloatVector.fromArray(FLOATS, x, from + i));
        }
        float max = largest.reduceLanes(VectorOperators.MAX);
        for (; i < n; i++) {
            max = Math.max(max, x[from + i]);
        }
        return max;
    }

    @Override
    public float dot(float[] a, int fromA, float[] b, int fromB, int n) {
        FloatVector sums = FloatVector.zero(FLOATS);
        int i = 0;
        for (; i <= n - LANES; i += LANES) {
            sums = FloatVector.fromArray(FLOATS, a, fromA + i).fma(FloatVector.fromArray(FLOATS, b, fromB + i), sums);
        }
        float sum = total(sums.toArray());
        for (; i < n; i++) {
            sum = Math.fma(a[fromA + i], b[fromB + i], sum);
        }
        return sum;
    }
}
