package dev.octet.converter.compare;

import dev.octet.converter.compare.RoundingSignature.Verdict;
import java.io.IOException;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** Finds the {@link RoundingSignature} of a pair from its sums and, if they are suspicious, from a sample. */
final class SignatureSearch {
    /** Largest share of elements that may break a rule: values that the rules do not cover, for example clipped ones. */
    private static final double EXCEPTIONS = 0.001;

    /** Least share of elements that must have moved; otherwise one grid may be a subset of the other. */
    private static final double LEAST_MOVED = 0.01;

    /** Share of a sample that an intermediate grid must explain. */
    private static final double EXPLAINED = 0.999;

    /** Fewer pairs than this prove nothing. */
    private static final long LEAST_ELEMENTS = 256;

    private final Weight a;
    private final Weight b;
    private final PairSums sums;
    private final List<String> notes;
    private final DeclaredRounding declared;
    private @Nullable Sample sampleA;
    private @Nullable Sample sampleB;

    private SignatureSearch(Weight a, Weight b, PairSums sums, DeclaredRounding declared, List<String> notes) {
        this.a = a;
        this.b = b;
        this.sums = sums;
        this.declared = declared;
        this.notes = notes;
    }

    /** The finding on the errors of {@code sums}; adds other observations to {@code notes}. */
    static RoundingSignature search(Weight a, Weight b, PairSums sums, DeclaredRounding declared, List<String> notes)
            throws IOException {
        if (sums.differing == 0 || sums.count < LEAST_ELEMENTS) {
            return RoundingSignature.NONE;
        }
        return new SignatureSearch(a, b, sums, declared, notes).search();
    }

    private RoundingSignature search() throws IOException {
        Optional<String> fewA = few(a, sampleA());
        Optional<String> fewB = few(b, sampleB());
        fewA.ifPresent(few -> notes.add("A looks dequantised: " + few));
        fewB.ifPresent(few -> notes.add("B looks dequantised: " + few));
        boolean gridA = a.grid().quantized() || fewA.isPresent();
        boolean gridB = b.grid().quantized() || fewB.isPresent();
        boolean againB = b.grid().quantized() && gridA && roundedAgain(sums.towardB);
        boolean againA = a.grid().quantized() && gridB && roundedAgain(sums.towardA);
        if (againA || againB) {
            return again(againA, againB);
        }
        if (b.grid().quantized() && !gridA && share(sums.towardB.beyondHalf) > EXCEPTIONS) {
            return through("b", sums.towardB, sampleA(), sampleB(), b.grid(), sums.amaxA);
        }
        if (a.grid().quantized() && !gridB && share(sums.towardA.beyondHalf) > EXCEPTIONS) {
            return through("a", sums.towardA, sampleB(), sampleA(), a.grid(), sums.amaxB);
        }
        return RoundingSignature.NONE;
    }

    private double share(long count) {
        return (double) count / sums.count;
    }

    private boolean roundedAgain(PairSums.Toward side) {
        return share(side.farBeyondHalf) <= EXCEPTIONS && share(side.moved) >= LEAST_MOVED;
    }

    private RoundingSignature again(boolean againA, boolean againB) {
        String side = againA && againB ? "either" : againB ? "b" : "a";
        PairSums.Toward toward = againB ? sums.towardB : sums.towardA;
        String one = againB ? "B" : "A";
        String other = againB ? "A" : "B";
        String evidence = String.format(
                Locale.ROOT,
                "%s holds the values of %s rounded again: %.1f %% of them moved, none by more than half a unit of its"
                        + " grid",
                one,
                other,
                100 * share(toward.moved));
        if (side.equals("either")) {
            evidence += "; the reverse holds too";
        }
        return new RoundingSignature(
                Verdict.ROUNDED_AGAIN,
                side,
                share(toward.beyondHalf),
                share(toward.moved),
                toward.maxUlp,
                null,
                Double.NaN,
                Double.NaN,
                evidence);
    }

    private RoundingSignature through(
            String side, PairSums.Toward toward, Sample from, Sample to, NumberGrid grid, float amax) {
        boolean roundable = grid.maxValue() < Double.MAX_VALUE && from.size() == to.size();
        Intermediates ways = new Intermediates(from, to, grid, amax);
        Intermediates.Way direct = roundable ? ways.direct() : new Intermediates.Way("", Double.NaN);
        Intermediates.Way best = roundable ? ways.best() : direct;
        boolean found = best.share() >= EXPLAINED && best.share() > direct.share();
        if (!found && declared.isCompensated(side)) {
            return new RoundingSignature(
                    Verdict.COMPENSATED,
                    side,
                    share(toward.beyondHalf),
                    share(toward.moved),
                    toward.maxUlp,
                    null,
                    best.share(),
                    direct.share(),
                    "");
        }
        String beyond = String.format(
                Locale.ROOT,
                "%.2f %% of the elements are more than half a unit away, up to %.2f units, where one rounding has none",
                100 * share(toward.beyondHalf),
                toward.maxUlp);
        String evidence = found
                ? String.format(
                        Locale.ROOT,
                        "%s; rounding to %s first gives %.2f %% of a sample exactly, rounding once %.2f %%",
                        beyond,
                        best.name(),
                        100 * best.share(),
                        100 * direct.share())
                : beyond
                        + "; no known intermediate grid explains it (compensated or stochastic rounding looks like this"
                        + " too)";
        return new RoundingSignature(
                found ? Verdict.THROUGH_ANOTHER_GRID : Verdict.UNEXPLAINED,
                side,
                share(toward.beyondHalf),
                share(toward.moved),
                toward.maxUlp,
                found ? best.name() : null,
                best.share(),
                direct.share(),
                evidence);
    }

    private static Optional<String> few(Weight weight, Sample sample) {
        if (weight.grid().quantized() || weight.grid().integers()) {
            return Optional.empty();
        }
        return FewMagnitudes.find(sample.values(), sample.rows(), sample.cols());
    }

    private Sample sampleA() throws IOException {
        if (sampleA == null) {
            sampleA = Sample.of(a);
        }
        return sampleA;
    }

    private Sample sampleB() throws IOException {
        if (sampleB == null) {
            sampleB = Sample.of(b);
        }
        return sampleB;
    }
}
