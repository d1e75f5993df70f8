package dev.octet.converter.transform;

import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.transform.Rotation;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.function.Supplier;

/**
 * How the input of a Linear changes: what statistics of the model before the transforms become. Rounding with second moments H of the
 * original inputs uses {@code A^T H A} for the change {@code x A}.
 */
public final class InputChange {
    private final List<Part> parts;

    private sealed interface Part {}

    /** The input is divided by these. */
    private record Divided(Supplier<double[]> factors) implements Part {}

    /** The input is turned, so many channels at a time. */
    private record Turned(Rotation rotation) implements Part {}

    private InputChange(List<Part> parts) {
        this.parts = List.copyOf(parts);
    }

    /** Channels are divided by factors. */
    static InputChange divided(Supplier<double[]> factors) {
        return new InputChange(List.of(new Divided(factors)));
    }

    /** Channels are turned. */
    static InputChange turned(Rotation rotation) {
        return new InputChange(List.of(new Turned(rotation)));
    }

    InputChange then(InputChange next) {
        List<Part> all = new ArrayList<>(parts);
        all.addAll(next.parts);
        return new InputChange(all);
    }

    /** Replaces one row of inputs by what the transformed model computes there. */
    public void apply(double[] x) {
        for (Part part : parts) {
            switch (part) {
                case Divided(var factors) -> {
                    double[] s = factors.get();
                    for (int i = 0; i < x.length; i++) {
                        x[i] /= s[i];
                    }
                }
                case Turned(Rotation rotation) -> {
                    for (int i = 0; i < x.length; i += rotation.size()) {
                        rotation.apply(x, i);
                    }
                }
            }
        }
    }

    /** The second moment of the changed inputs. */
    public SecondMoment of(SecondMoment moment) {
        if (!mixes()) {
            double[] inverse = new double[moment.size()];
            Arrays.fill(inverse, 1);
            apply(inverse);
            for (int i = 0; i < inverse.length; i++) {
                inverse[i] = 1 / inverse[i];
            }
            return moment.divided(inverse);
        }
        double[][] h = moment.matrix();
        applyToMoment(h);
        return SecondMoment.of(h, moment.rows());
    }

    /** Replaces a symmetric matrix {@code H = sum of x^T x} by that of the changed inputs. */
    private void applyToMoment(double[][] h) {
        for (double[] row : h) {
            apply(row);
        }
        double[] column = new double[h.length];
        for (int j = 0; j < h.length; j++) {
            for (int i = 0; i < h.length; i++) {
                column[i] = h[i][j];
            }
            apply(column);
            for (int i = 0; i < h.length; i++) {
                h[i][j] = column[i];
            }
        }
    }

    /** The least, greatest or largest numbers of channels after the change; empty where channels are mixed, which they do not tell. */
    public Optional<float[]> extrema(float[] channels) {
        double[] all = new double[channels.length];
        for (int i = 0; i < all.length; i++) {
            all[i] = channels[i];
        }
        for (Part part : parts) {
            if (part instanceof Turned) {
                return Optional.empty();
            }
        }
        apply(all);
        float[] after = new float[all.length];
        for (int i = 0; i < all.length; i++) {
            after[i] = (float) all[i];
        }
        return Optional.of(after);
    }

    /** Whether channels are mixed. */
    public boolean mixes() {
        return parts.stream().anyMatch(Turned.class::isInstance);
    }
}
