package dev.octet.trainer.op.conv;

/**
 * How a kernel moves along one axis: output {@code o} reads inputs {@code o·stride - before + t·dilation} for t below {@code kernel};
 * those outside of 0 .. in - 1 are zeros.
 *
 * @param before zeros padded at the beginning
 */
public record Window(int in, int out, int kernel, int stride, int dilation, int before) {
    /** An axis that is not there. */
    static final Window ONE = new Window(1, 1, 1, 1, 1, 0);

    /** A window with the given padding; the output is as long as fits. */
    static Window of(long in, long kernel, long stride, long dilation, long before, long after) {
        long reach = (kernel - 1) * dilation + 1;
        long out = Math.floorDiv(in + before + after - reach, stride) + 1;
        return new Window(
                Math.toIntExact(in),
                Math.toIntExact(Math.max(0, out)),
                Math.toIntExact(kernel),
                Math.toIntExact(stride),
                Math.toIntExact(dilation),
                Math.toIntExact(before));
    }

    /** A window whose output is as long as the input over the stride; an odd zero goes behind, or before with {@code lower}. */
    static Window same(long in, long kernel, long stride, long dilation, boolean lower) {
        long reach = (kernel - 1) * dilation + 1;
        long out = Math.ceilDiv(in, stride);
        long pad = Math.max(0, (out - 1) * stride + reach - in);
        long before = lower ? pad - pad / 2 : pad / 2;
        return of(in, kernel, stride, dilation, before, pad - before);
    }

    /** The input that output {@code o} reads at kernel element {@code t}; outside of the input in the padding. */
    int at(int o, int t) {
        return o * stride - before + t * dilation;
    }

    /** The first output that reads an input, not padding, at kernel element {@code t}; {@code out} when none does. */
    int first(int t) {
        return Math.clamp(Math.ceilDiv(-at(0, t), stride), 0, out);
    }

    /** One more than the last output that reads an input, not padding, at kernel element {@code t}; at least {@link #first}. */
    int end(int t) {
        return Math.clamp(Math.ceilDiv(in - at(0, t), stride), first(t), out);
    }

    /** Whether each output is the input at the same place. */
    boolean isIdentity() {
        return kernel == 1 && stride == 1 && before == 0 && out == in;
    }
}
