package dev.octet.converter.compare;

import dev.octet.quant.measure.CastError;
import java.io.Serializable;

/**
 * Sums over pairs of elements, computed per tile and added in the order of the tiles. Pairs with a non-finite number count only in {@link
 * #notFinite} and {@link #apart}. Not thread-safe.
 */
final class PairSums implements Serializable {
    private static final long serialVersionUID = 1;

    /** Upper borders of the error histogram, in units of the coarser grid; the last bin is open. The slack is added to the third, 0.5. */
    static final double[] BORDERS = {1.0 / 64, 0.25, 0.5, 0.75, 1, 2, 8};

    /** Index of the border with slack, see {@link #BORDERS}. */
    private static final int THIRD = 2;

    /** Number of bits of a double below the first bit of its significand. */
    private static final int HALF_BINADE = 51;

    private static final int FIRST_HALF = (int) (Double.doubleToRawLongBits(BORDERS[0]) >>> HALF_BINADE) - 1;
    private static final int LAST_HALF =
            (int) (Double.doubleToRawLongBits(BORDERS[BORDERS.length - 1]) >>> HALF_BINADE);

    private static final int BIN_BITS = 3;

    /** The bins of the 20 half binades from the one that ends at the first border to the one that starts at the last, 3 bits each. */
    private static final long BINS = bins();

    /** Errors above this share of a unit show that rounding changed the element. */
    private static final double MOVED = 1.0 / 16;

    /** Half a unit of BF16 is at most 1/32 unit of E4M3; twice that at a border between binades. */
    private static final double BETWEEN = 1.0 / 16;

    long count;
    double signal;
    double noise;
    double squares;
    double product;
    double maxError;
    double maxUlp;
    float amaxA;
    float amaxB;
    /** Pairs of different numbers. */
    long differing;
    /** Pairs of zeros with different signs. */
    long zeroSigns;
    /** Pairs with a NaN or infinity. */
    long notFinite;
    /** Of {@link #notFinite}, those that are not the same NaN or infinity. */
    long apart;
    /** Errors of differing finite pairs by size, see {@link #BORDERS}. */
    final long[] histogram = new long[BORDERS.length + 1];

    final Toward towardA = new Toward();
    final Toward towardB = new Toward();
    final Offsets offsetsOfB = new Offsets();

    /** Measures one side as a rounding of the other; stays empty for sides that are not quantised. */
    static final class Toward implements Serializable {
        private static final long serialVersionUID = 1;

        /** Pairs whose error exceeds half a unit of this side plus its slack, without saturated pairs. */
        long beyondHalf;
        /** Of {@link #beyondHalf}, pairs that an intermediate rounding to BF16 does not explain either. */
        long farBeyondHalf;
        /** Pairs whose error exceeds a sixteenth of a unit. */
        long moved;
        /** Pairs in which the other side is beyond this side's largest number. */
        long saturated;
        /** The largest error in units, without saturated pairs. */
        double maxUlp;

        private void add(double inUnits, float from, float multiplier, NumberGrid grid) {
            if (inUnits > MOVED) {
                moved++;
            }
            addDistance(inUnits, from, multiplier, grid, 0.5 + grid.slack());
        }

        /** As {@link #add} without counting {@link #moved}. */
        private void addDistance(double inUnits, float from, float multiplier, NumberGrid grid, double half) {
            if (inUnits > half) {
                addBeyond(inUnits, from, multiplier, grid);
            } else {
                maxUlp = inUnits > maxUlp ? inUnits : maxUlp;
            }
        }

        private void addBeyond(double inUnits, float from, float multiplier, NumberGrid grid) {
            if (Math.abs((double) from) > grid.most(from) * multiplier) {
                saturated++;
                return;
            }
            beyondHalf++;
            if (inUnits > 0.5 + grid.slack() + BETWEEN) {
                farBeyondHalf++;
            }
            maxUlp = Math.max(maxUlp, inUnits);
        }

        private void plus(Toward other) {
            beyondHalf += other.beyondHalf;
            farBeyondHalf += other.farBeyondHalf;
            moved += other.moved;
            saturated += other.saturated;
            maxUlp = Math.max(maxUlp, other.maxUlp);
        }
    }

    /** Sums for the {@link Nearness} of the second side. */
    static final class Offsets implements Serializable {
        private static final long serialVersionUID = 1;

        private long off;
        private long far;
        private long clipped;
        private double squares;
        private double surplus;
        private double furthest;
        private long furthestAt = -1;

        /**
         * Adds a pair of different numbers.
         *
         * @param x the other side's number, finite
         * @param y this side's number
         * @param inSteps their distance in steps of this side
         * @param index of the element
         */
        private void add(float x, float y, float multiplier, double inSteps, NumberGrid grid, long index) {
            double most = grid.most(x) * multiplier;
            boolean beyond = Math.abs((double) x) > most;
            float reachable = beyond ? (float) Math.copySign(most, x) : x;
            double error = Math.abs((double) reachable - y) / multiplier;
            double steps = beyond ? error * multiplier / grid.ulpBetween(reachable, y, multiplier) : inSteps;
            clipped += beyond ? 1 : 0;
            squares += error * error;
            if (steps <= 0.5 + grid.slack()) {
                return;
            }
            double least = Math.abs((double) reachable - grid.round(reachable, multiplier)) / multiplier;
            off++;
            // the zero point of asymmetric codes is unknown here, so the ends of their range may be off by a step
            far += steps > 0.5 + grid.slack() + (grid.asymmetric() ? 0.5 : BETWEEN) ? 1 : 0;
            surplus += error * error - least * least;
            if (error - least > furthest) {
                furthest = error - least;
                furthestAt = index;
            }
        }

        private void plus(Offsets other) {
            off += other.off;
            far += other.far;
            clipped += other.clipped;
            squares += other.squares;
            surplus += other.surplus;
            if (other.furthest > furthest) {
                furthest = other.furthest;
                furthestAt = other.furthestAt;
            }
        }
    }

    /** The nearness of the second side. */
    Nearness nearness() {
        Offsets o = offsetsOfB;
        double among = Math.max(1, count);
        return new Nearness(
                count,
                o.off,
                o.far,
                o.clipped,
                product / squares,
                Math.sqrt(o.squares / among),
                Math.sqrt(Math.max(0, o.squares - o.surplus) / among),
                o.furthest,
                o.furthestAt);
    }

    /**
     * Adds pairs.
     *
     * @param first index of the first element
     * @param a values of the first side; {@code n} elements of each array are read
     * @param multiplierA multipliers of the first side; ignored when its grid has none
     */
    void add(
            long first,
            float[] a,
            float[] multiplierA,
            NumberGrid gridA,
            float[] b,
            float[] multiplierB,
            NumberGrid gridB,
            int n) {
        if (areFinite(a, n)
                && areFinite(b, n)
                && areScales(multiplierA, gridA, n)
                && areScales(multiplierB, gridB, n)) {
            addProducts(a, b, n);
            if (gridA.equals(gridB) && !gridA.quantized() && !gridA.integers()) {
                addPlainErrors(a, b, gridA, n);
            } else {
                addErrors(first, a, multiplierA, gridA, b, multiplierB, gridB, n);
            }
        } else {
            addEach(first, a, multiplierA, gridA, b, multiplierB, gridB, n);
        }
    }

    private static boolean areFinite(float[] values, int n) {
        int odd = 0;
        for (int i = 0; i < n; i++) {
            // only an exponent of all ones carries into the sign
            odd |= (Float.floatToRawIntBits(values[i]) & Integer.MAX_VALUE) + (1 << 23);
        }
        return odd >= 0;
    }

    private static boolean areScales(float[] multipliers, NumberGrid grid, int n) {
        boolean all = true;
        for (int i = 0; grid.quantized() && i < n; i++) {
            all &= multipliers[i] > 0 && multipliers[i] < Float.POSITIVE_INFINITY;
        }
        return all;
    }

    /** Adds the products of pairs of finite numbers, equal or not, in the order of the elements. */
    private void addProducts(float[] a, float[] b, int n) {
        double signalHere = signal;
        double squaresHere = squares;
        double productHere = product;
        int largestA = 0;
        int largestB = 0;
        for (int i = 0; i < n; i++) {
            double x = a[i];
            double y = b[i];
            signalHere += x * x;
            squaresHere += y * y;
            productHere += x * y;
            largestA = Math.max(largestA, Float.floatToRawIntBits(a[i]) & Integer.MAX_VALUE);
            largestB = Math.max(largestB, Float.floatToRawIntBits(b[i]) & Integer.MAX_VALUE);
        }
        count += n;
        signal = signalHere;
        squares = squaresHere;
        product = productHere;
        amaxA = Math.max(amaxA, Float.intBitsToFloat(largestA));
        amaxB = Math.max(amaxB, Float.intBitsToFloat(largestB));
    }

    /**
     * Adds the errors of pairs of finite numbers with multipliers above 0: the same results as {@link #addEach}, without the branches that
     * a processor mispredicts for every second pair.
     */
    private void addErrors(
            long first,
            float[] a,
            float[] multiplierA,
            NumberGrid gridA,
            float[] b,
            float[] multiplierB,
            NumberGrid gridB,
            int n) {
        boolean another = gridB.quantized() || !gridA.equals(gridB);
        boolean quantizedA = gridA.quantized();
        boolean quantizedB = gridB.quantized();
        double halfA = 0.5 + gridA.slack();
        double halfB = 0.5 + gridB.slack();
        double noiseHere = noise;
        double maxErrorHere = maxError;
        double maxUlpHere = maxUlp;
        double stepsHere = offsetsOfB.squares;
        int same = 0;
        int movedA = 0;
        int movedB = 0;
        for (int i = 0; i < n; i++) {
            float x = a[i];
            float y = b[i];
            if (x == y) {
                same++;
                zeroSigns += Float.floatToRawIntBits(x) == Float.floatToRawIntBits(y) ? 0 : 1;
                continue;
            }
            float sa = quantizedA ? multiplierA[i] : 1;
            float sb = quantizedB ? multiplierB[i] : 1;
            double error = Math.abs((double) x - y);
            double ulpA = gridA.ulpBetween(x, y, sa);
            double ulpB = gridB.ulpBetween(x, y, sb);
            boolean coarserA = ulpA > ulpB;
            double inUnits = error / (coarserA ? ulpA : ulpB);
            noiseHere += error * error;
            maxErrorHere = error > maxErrorHere ? error : maxErrorHere;
            maxUlpHere = inUnits > maxUlpHere ? inUnits : maxUlpHere;
            histogram[binOf(inUnits, coarserA ? halfA : halfB)]++;
            if (quantizedA) {
                double inUnitsOfA = coarserA || ulpA == ulpB ? inUnits : error / ulpA;
                movedA += inUnitsOfA > MOVED ? 1 : 0;
                towardA.addDistance(inUnitsOfA, y, sa, gridA, halfA);
            }
            double inUnitsOfB = coarserA ? error / ulpB : inUnits;
            if (quantizedB) {
                movedB += inUnitsOfB > MOVED ? 1 : 0;
                towardB.addDistance(inUnitsOfB, x, sb, gridB, halfB);
            }
            if (!another) {
                continue;
            }
            if (inUnitsOfB > halfB || Math.abs((double) x) > gridB.most(x) * sb) {
                offsetsOfB.squares = stepsHere;
                offsetsOfB.add(x, y, sb, inUnitsOfB, gridB, first + i);
                stepsHere = offsetsOfB.squares;
            } else {
                double inSteps = error / sb;
                stepsHere += inSteps * inSteps;
            }
        }
        differing += n - same;
        noise = noiseHere;
        maxError = maxErrorHere;
        maxUlp = maxUlpHere;
        offsetsOfB.squares = stepsHere;
        towardA.moved += movedA;
        towardB.moved += movedB;
    }

    /** As {@link #addErrors} for two sides of one float format: units are powers of two, so division becomes multiplication. */
    private void addPlainErrors(float[] a, float[] b, NumberGrid grid, int n) {
        double third = 0.5 + grid.slack();
        double noiseHere = noise;
        double maxErrorHere = maxError;
        double maxUlpHere = maxUlp;
        int same = 0;
        for (int i = 0; i < n; i++) {
            float x = a[i];
            float y = b[i];
            if (x == y) {
                same++;
                zeroSigns += Float.floatToRawIntBits(x) == Float.floatToRawIntBits(y) ? 0 : 1;
                continue;
            }
            double error = Math.abs((double) x - y);
            double inUnits = error * grid.unitsIn1(x, y);
            noiseHere += error * error;
            maxErrorHere = error > maxErrorHere ? error : maxErrorHere;
            maxUlpHere = inUnits > maxUlpHere ? inUnits : maxUlpHere;
            histogram[binOf(inUnits, third)]++;
        }
        differing += n - same;
        noise = noiseHere;
        maxError = maxErrorHere;
        maxUlp = maxUlpHere;
    }

    /** As {@link #bin} for a number above 0, computed from its bits: every border but the third lies at a half binade. */
    private static int binOf(double inUnits, double third) {
        // minus one bit, because a number at a border belongs below it
        long bits = Double.doubleToRawLongBits(inUnits);
        int half = (int) ((bits - 1) >>> HALF_BINADE);
        int at = Math.max(0, Math.min(half - FIRST_HALF, LAST_HALF - FIRST_HALF));
        int bin = (int) (BINS >>> (BIN_BITS * at)) & ((1 << BIN_BITS) - 1);
        // at most the third bin up to the third border plus slack; branch-free
        int beyond = (int) ((Double.doubleToRawLongBits(third) - bits) >> (Long.SIZE - 1));
        return Math.min(bin, THIRD | (beyond & 0xFF));
    }

    private static long bins() {
        long bins = 0;
        for (int i = 0; i <= LAST_HALF - FIRST_HALF; i++) {
            bins |= (long) bin(Double.longBitsToDouble((FIRST_HALF + i + 1L) << HALF_BINADE), 0) << (BIN_BITS * i);
        }
        return bins;
    }

    /** Adds pairs of any kind one by one: the readable form of {@link #add}. */
    void addEach(
            long first,
            float[] a,
            float[] multiplierA,
            NumberGrid gridA,
            float[] b,
            float[] multiplierB,
            NumberGrid gridB,
            int n) {
        boolean another = gridB.quantized() || !gridA.equals(gridB);
        for (int i = 0; i < n; i++) {
            float x = a[i];
            float y = b[i];
            if (!Float.isFinite(x) || !Float.isFinite(y)) {
                addNotFinite(x, y);
                continue;
            }
            count++;
            signal += (double) x * x;
            squares += (double) y * y;
            product += (double) x * y;
            amaxA = Math.max(amaxA, Math.abs(x));
            amaxB = Math.max(amaxB, Math.abs(y));
            if (x == y) {
                zeroSigns += Float.floatToRawIntBits(x) == Float.floatToRawIntBits(y) ? 0 : 1;
                continue;
            }
            float sa = gridA.quantized() ? multiplierA[i] : 1;
            float sb = gridB.quantized() ? multiplierB[i] : 1;
            double stepsOfB = addDiffering(x, sa, gridA, y, sb, gridB);
            if (another && sb > 0) {
                offsetsOfB.add(x, y, sb, stepsOfB, gridB, first + i);
            }
        }
    }

    /** The distance of two different numbers in units of the second side. */
    private double addDiffering(float x, float sa, NumberGrid gridA, float y, float sb, NumberGrid gridB) {
        double error = Math.abs((double) x - y);
        double ulpA = gridA.ulpBetween(x, y, sa);
        double ulpB = gridB.ulpBetween(x, y, sb);
        differing++;
        noise += error * error;
        maxError = Math.max(maxError, error);
        double unit = Math.max(ulpA, ulpB);
        double inUnits = error / unit;
        maxUlp = Math.max(maxUlp, inUnits);
        histogram[bin(inUnits, ulpA > ulpB ? gridA.slack() : gridB.slack())]++;
        // only quantised sides need this, and division is slow
        if (gridA.quantized()) {
            towardA.add(ulpA == unit ? inUnits : error / ulpA, y, sa, gridA);
        }
        double inUnitsOfB = ulpB == unit ? inUnits : error / ulpB;
        if (gridB.quantized()) {
            towardB.add(inUnitsOfB, x, sb, gridB);
        }
        return inUnitsOfB;
    }

    private static int bin(double inUnits, double slack) {
        for (int i = 0; i < BORDERS.length; i++) {
            if (inUnits <= (BORDERS[i] == 0.5 ? 0.5 + slack : BORDERS[i])) {
                return i;
            }
        }
        return BORDERS.length;
    }

    private void addNotFinite(float x, float y) {
        notFinite++;
        boolean same = Float.isNaN(x) ? Float.isNaN(y) : x == y;
        apart += same ? 0 : 1;
    }

    /** Adds the sums of another tile. */
    void plus(PairSums other) {
        count += other.count;
        signal += other.signal;
        noise += other.noise;
        squares += other.squares;
        product += other.product;
        maxError = Math.max(maxError, other.maxError);
        maxUlp = Math.max(maxUlp, other.maxUlp);
        amaxA = Math.max(amaxA, other.amaxA);
        amaxB = Math.max(amaxB, other.amaxB);
        differing += other.differing;
        zeroSigns += other.zeroSigns;
        notFinite += other.notFinite;
        apart += other.apart;
        for (int i = 0; i < histogram.length; i++) {
            histogram[i] += other.histogram[i];
        }
        towardA.plus(other.towardA);
        towardB.plus(other.towardB);
        offsetsOfB.plus(other.offsetsOfB);
    }

    /** The usual measures of the finite pairs, with the first side as the exact one. */
    CastError measures() {
        return new CastError(count, signal, noise, squares, product, maxError, 0);
    }

    /** Pairs beyond half a unit (plus slack) of the coarser grid. */
    long beyondOneRounding() {
        long beyond = 0;
        for (int i = 3; i < histogram.length; i++) {
            beyond += histogram[i];
        }
        return beyond;
    }
}
