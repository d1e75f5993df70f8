package dev.octet.trainer.kernel;

import static dev.octet.trainer.kernel.FunctionConstants.*;

import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * On vectors; the formulas are those of {@link ScalarFunctions}, which also takes the elements that fill no vector. Loading this class
 * needs the module {@code jdk.incubator.vector}.
 */
@SuppressWarnings("ReferenceEquality") // whether two arrays are one, not whether they are alike
final class VectorFunctions implements ElementaryFunctions {
    private static final VectorSpecies<Float> FLOATS = FloatVector.SPECIES_PREFERRED;
    private static final int LANES = FLOATS.length();

    /** For the elements that fill no vector. */
    private static final ElementaryFunctions SINGLE = new ScalarFunctions();

    private static FloatVector of(float value) {
        return FloatVector.broadcast(FLOATS, value);
    }

    private static FloatVector exp(FloatVector x) {
        FloatVector bounded =
                x.blend(EXP_HIGHEST, x.compare(VectorOperators.GT, EXP_HIGHEST)).blend(EXP_LOWEST, x.lt(EXP_LOWEST));
        FloatVector shifted = bounded.fma(of(LOG2_E), of(ROUNDER));
        IntVector k = shifted.reinterpretAsInts().sub(ROUNDER_BITS);
        FloatVector n = shifted.sub(ROUNDER);
        FloatVector r = n.fma(of(-LN2_LOW), n.fma(of(-LN2_HIGH), bounded));
        FloatVector p = of(EXP_4)
                .fma(r, of(EXP_3))
                .fma(r, of(EXP_2))
                .fma(r, of(EXP_1))
                .fma(r, of(EXP_0))
                .fma(r.mul(r), r)
                .add(1f);
        IntVector half = k.lanewise(VectorOperators.ASHR, 1);
        return p.mul(powerOfTwo(half)).mul(powerOfTwo(k.sub(half)));
    }

    private static FloatVector powerOfTwo(IntVector exponent) {
        return exponent.add(127).lanewise(VectorOperators.LSHL, 23).reinterpretAsFloats();
    }

    private static FloatVector log(FloatVector x) {
        VectorMask<Float> subnormal = x.lt(SMALLEST_NORMAL);
        IntVector bits = x.mul(TWO_23, subnormal).reinterpretAsInts();
        IntVector exponent = bits.sub(SQRT_HALF_BITS).lanewise(VectorOperators.ASHR, 23);
        FloatVector f = bits.sub(exponent.lanewise(VectorOperators.LSHL, 23))
                .reinterpretAsFloats()
                .sub(1f);
        FloatVector e = ((FloatVector) exponent.convert(VectorOperators.I2F, 0)).sub(23f, subnormal);
        FloatVector p = of(LOG_7)
                .fma(f, of(LOG_6))
                .fma(f, of(LOG_5))
                .fma(f, of(LOG_4))
                .fma(f, of(LOG_3))
                .fma(f, of(LOG_2))
                .fma(f, of(LOG_1))
                .fma(f, of(LOG_0));
        FloatVector z = f.mul(f);
        FloatVector y = e.fma(of(LN2_LOW), f.mul(z).mul(p));
        y = z.fma(of(-0.5f), y);
        y = e.fma(of(LN2_HIGH), f.add(y));
        return y.blend(Float.POSITIVE_INFINITY, x.eq(Float.POSITIVE_INFINITY))
                .blend(Float.NaN, x.compare(VectorOperators.GE, 0f).not())
                .blend(Float.NEGATIVE_INFINITY, x.eq(0f));
    }

    private static FloatVector copySign(FloatVector magnitude, FloatVector sign) {
        return magnitude
                .reinterpretAsInts()
                .or(sign.reinterpretAsInts().and(Integer.MIN_VALUE))
                .reinterpretAsFloats();
    }

    /** tanh from e^2|x|. */
    private static FloatVector tanh(FloatVector x, FloatVector exponential) {
        FloatVector s = x.mul(x);
        FloatVector small = of(TANH_4)
                .fma(s, of(TANH_3))
                .fma(s, of(TANH_2))
                .fma(s, of(TANH_1))
                .fma(s, of(TANH_0))
                .mul(s)
                .fma(x, x);
        FloatVector large = of(1f).sub(of(2f).div(exponential.add(1f)));
        return copySign(large, x).blend(small, x.abs().lt(TANH_SMALL));
    }

    /** log(1 - erf |x|), for 1 and more. */
    private static FloatVector logErfc(FloatVector x) {
        FloatVector a = x.abs();
        FloatVector t = a.blend(ERF_ONE, a.compare(VectorOperators.GT, ERF_ONE));
        FloatVector q = of(ERFC_6)
                .fma(t, of(ERFC_5))
                .fma(t, of(ERFC_4))
                .fma(t, of(ERFC_3))
                .fma(t, of(ERFC_2))
                .fma(t, of(ERFC_1))
                .fma(t, of(ERFC_0));
        return q.add(t).neg();
    }

    /** erf from e^{@link #logErfc}. */
    private static FloatVector erf(FloatVector x, FloatVector erfc) {
        FloatVector s = x.mul(x);
        FloatVector small = of(ERF_6)
                .fma(s, of(ERF_5))
                .fma(s, of(ERF_4))
                .fma(s, of(ERF_3))
                .fma(s, of(ERF_2))
                .fma(s, of(ERF_1))
                .fma(s, of(ERF_0))
                .fma(x, x);
        return copySign(of(1f).sub(erfc), x).blend(small, x.abs().lt(ERF_SMALL));
    }

    private static FloatVector sigmoid(FloatVector x) {
        return of(1f).div(exp(x.neg()).add(1f));
    }

    /** log(1 + e^x) from u = e^-|x|. */
    private static FloatVector softplus(FloatVector x, FloatVector u) {
        FloatVector s = u.div(u.add(2f));
        FloatVector z = s.mul(s);
        FloatVector p = of(LOG1P_4)
                .fma(z, of(LOG1P_3))
                .fma(z, of(LOG1P_2))
                .fma(z, of(LOG1P_1))
                .fma(z, of(LOG1P_0));
        return s.mul(z).fma(p, s.mul(2f)).add(of(0f).blend(x, x.compare(VectorOperators.GT, 0f)));
    }

    /**
     * The sum of the lanes, halves onto halves. (The order of {@code reduceLanes(ADD)} is not specified, and is another one before and
     * after compilation: the same step would give other bits later in a run.)
     */
    private static float total(FloatVector sums) {
        float[] lanes = sums.toArray();
        for (int width = lanes.length / 2; width > 0; width /= 2) {
            for (int i = 0; i < width; i++) {
                lanes[i] += lanes[i + width];
            }
        }
        return lanes[0];
    }

    /** A loop over a run: {@code y = f(x, y)}. The length is a multiple of that of vectors. */
    @FunctionalInterface
    private interface Pass {
        void run(float[] x, int from, float[] y, int to, int n);
    }

    private static final Pass EXPONENTIAL = VectorFunctions::raised;
    private static final Pass[] TANH = {VectorFunctions::twiceMagnitude, EXPONENTIAL, VectorFunctions::tanhOfRun};
    private static final Pass[] ERF = {VectorFunctions::logErfc, EXPONENTIAL, VectorFunctions::erfOfRun};
    private static final Pass[] SOFTPLUS = {
        VectorFunctions::negativeMagnitude, EXPONENTIAL, VectorFunctions::softplusOfRun
    };

    /**
     * Functions with an exponential and polynomials of their own, as three loops over the run, which lies in the first cache: what is to be
     * raised to, the exponential, the rest. In one loop, or in three that are inlined into one method, they are more code than the compiler
     * inlines, and what it leaves out gets its vectors as objects, which is some ten times slower. So the loops are called through an
     * interface, at one place that sees more classes than the compiler inlines (two).
     */
    private static void inPasses(Pass[] passes, float[] x, int from, float[] y, int to, int n) {
        // the first pass overwrites what the last reads
        float[] kept = x == y ? Arrays.copyOfRange(x, from, from + n) : x;
        int start = x == y ? 0 : from;
        for (Pass pass : passes) {
            pass.run(kept, start, y, to, n);
        }
    }

    private static void raised(float[] x, int from, float[] y, int to, int n) {
        for (int i = to; i < to + n; i += LANES) {
            exp(FloatVector.fromArray(FLOATS, y, i)).intoArray(y, i);
        }
    }

    private static void twiceMagnitude(float[] x, int from, float[] y, int to, int n) {
        for (int i = 0; i < n; i += LANES) {
            FloatVector.fromArray(FLOATS, x, from + i).abs().mul(2f).intoArray(y, to + i);
        }
    }

    private static void negativeMagnitude(float[] x, int from, float[] y, int to, int n) {
        for (int i = 0; i < n; i += LANES) {
            FloatVector.fromArray(FLOATS, x, from + i).abs().neg().intoArray(y, to + i);
        }
    }

    private static void logErfc(float[] x, int from, float[] y, int to, int n) {
        for (int i = 0; i < n; i += LANES) {
            logErfc(FloatVector.fromArray(FLOATS, x, from + i)).intoArray(y, to + i);
        }
    }

    private static void tanhOfRun(float[] x, int from, float[] y, int to, int n) {
        for (int i = 0; i < n; i += LANES) {
            tanh(FloatVector.fromArray(FLOATS, x, from + i), FloatVector.fromArray(FLOATS, y, to + i))
                    .intoArray(y, to + i);
        }
    }

    private static void erfOfRun(float[] x, int from, float[] y, int to, int n) {
        for (int i = 0; i < n; i += LANES) {
            erf(FloatVector.fromArray(FLOATS, x, from + i), FloatVector.fromArray(FLOATS, y, to + i))
                    .intoArray(y, to + i);
        }
    }

    private static void softplusOfRun(float[] x, int from, float[] y, int to, int n) {
        for (int i = 0; i < n; i += LANES) {
            softplus(FloatVector.fromArray(FLOATS, x, from + i), FloatVector.fromArray(FLOATS, y, to + i))
                    .intoArray(y, to + i);
        }
    }

    // The loops. What they call is small enough to be inlined, so no vector is ever an object.

    @Override
    public void exp(float[] x, int from, float[] y, int to, int n) {
        int whole = n - n % LANES;
        for (int i = 0; i < whole; i += LANES) {
            exp(FloatVector.fromArray(FLOATS, x, from + i)).intoArray(y, to + i);
        }
        SINGLE.exp(x, from + whole, y, to + whole, n - whole);
    }

    @Override
    public float expOfDifference(float[] x, int from, float shift, float[] y, int to, int n) {
        FloatVector sums = FloatVector.zero(FLOATS);
        int i = 0;
        for (; i <= n - LANES; i += LANES) {
            FloatVector e = exp(FloatVector.fromArray(FLOATS, x, from + i).sub(shift));
            e.intoArray(y, to + i);
            sums = sums.add(e);
        }
        float sum = total(sums);
        for (; i < n; i++) {
            y[to + i] = ScalarFunctions.exp(x[from + i] - shift);
            sum += y[to + i];
        }
        return sum;
    }

    @Override
    public void log(float[] x, int from, float[] y, int to, int n) {
        int whole = n - n % LANES;
        for (int i = 0; i < whole; i += LANES) {
            log(FloatVector.fromArray(FLOATS, x, from + i)).intoArray(y, to + i);
        }
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
        for (int i = 0; i < whole; i += LANES) {
            sigmoid(FloatVector.fromArray(FLOATS, x, from + i)).intoArray(y, to + i);
        }
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
        float sum = total(sums);
        for (; i < n; i++) {
            sum += x[from + i];
        }
        return sum;
    }

    @Override
    public float max(float[] x, int from, int n) {
        FloatVector largest = of(Float.NEGATIVE_INFINITY);
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
        float sum = total(sums);
        for (; i < n; i++) {
            sum = Math.fma(a[fromA + i], b[fromB + i], sum);
        }
        return sum;
    }
}
