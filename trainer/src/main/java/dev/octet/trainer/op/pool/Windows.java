package dev.octet.trainer.op.pool;

import dev.octet.trainer.kernel.OpSource;
import java.util.Arrays;
import java.util.List;

/**
 * Where windows lie along one axis: output {@code o} looks at the inputs {@code o · stride - padBegin + k · dilation} for each k below
 * {@code kernel}.
 *
 * @param in size of the input
 * @param out number of windows
 */
public record Windows(int in, int out, int kernel, int stride, int padBegin, int padEnd, int dilation) {
    /** One window over everything. */
    static Windows whole(int in) {
        return new Windows(in, 1, in, 1, 0, 0, 1);
    }

    /** Windows with given padding; with {@code ceil}, one more that begins inside but ends outside. */
    static Windows of(int in, int kernel, int stride, int padBegin, int padEnd, int dilation, boolean ceil) {
        int free = in + padBegin + padEnd - (dilation * (kernel - 1) + 1);
        int out = (ceil ? Math.ceilDiv(free, stride) : Math.floorDiv(free, stride)) + 1;
        if (ceil && (out - 1) * stride >= in + padBegin) {
            out--; // it would see nothing but padding
        }
        return new Windows(in, out, kernel, stride, padBegin, padEnd, dilation);
    }

    /** ONNX's {@code SAME}: as many windows as strides begun, padding where {@code lower} says when it is odd. */
    static Windows same(int in, int kernel, int stride, int dilation, boolean lower) {
        int out = Math.ceilDiv(in, stride);
        int pad = Math.max(0, (out - 1) * stride + dilation * (kernel - 1) + 1 - in);
        int begin = lower ? pad - pad / 2 : pad / 2;
        return new Windows(in, out, kernel, stride, begin, pad - begin, dilation);
    }

    /**
     * The windows along every axis behind the channels, from a pooling node.
     *
     * @throws dev.octet.formats.error.UnsupportedModelException when attributes do not fit the input, or a window sees nothing
     */
    static List<Windows> read(OpSource source) {
        int axes = source.input(0).shape().rank() - 2;
        long[] kernel = ints(source, "kernel_shape", axes, 0);
        long[] strides = ints(source, "strides", axes, 1);
        long[] dilations = ints(source, "dilations", axes, 1);
        long[] pads = ints(source, "pads", 2 * axes, 0);
        boolean ceil = source.node().intAttribute("ceil_mode", 0) != 0;
        String auto = source.node().textAttribute("auto_pad", "NOTSET");
        Windows[] all = new Windows[axes];
        for (int i = 0; i < axes; i++) {
            int in = Math.toIntExact(source.input(0).shape().dim(i + 2));
            int k = Math.toIntExact(kernel[i]);
            int s = Math.toIntExact(strides[i]);
            int d = Math.toIntExact(dilations[i]);
            all[i] = switch (auto) {
                case "NOTSET" -> of(in, k, s, Math.toIntExact(pads[i]), Math.toIntExact(pads[axes + i]), d, ceil);
                case "VALID" -> of(in, k, s, 0, 0, d, ceil);
                case "SAME_UPPER" -> same(in, k, s, d, false);
                case "SAME_LOWER" -> same(in, k, s, d, true);
                default -> throw source.refusal("auto_pad '" + auto + "' is unknown", "export the model again");
            };
            if (k < 1 || s < 1 || d < 1 || all[i].out < 1 || all[i].padBegin >= d * (k - 1) + 1) {
                throw source.refusal(
                        "a window of " + k + " does not fit axis " + (i + 2) + " of "
                                + source.input(0).shape(),
                        "kernels, strides and dilations are positive, padding smaller than the window");
            }
        }
        return List.of(all);
    }

    private static long[] ints(OpSource source, String name, int count, long fallback) {
        long[] filled = new long[count];
        Arrays.fill(filled, fallback);
        long[] values = source.node()
                .intsAttribute(name)
                .map(v -> v.stream().mapToLong(Long::longValue).toArray())
                .orElse(filled);
        if (values.length != count) {
            throw source.refusal(name + " has " + values.length + " numbers", "it has " + count + " for this input");
        }
        return values;
    }

    /** First input of window {@code o}; negative in the padding. */
    int start(int o) {
        return o * stride - padBegin;
    }

    /** How many places of window {@code o} are inputs, or with {@code padding}, inputs or padding. */
    int places(int o, boolean padding) {
        int count = 0;
        for (int k = 0; k < kernel; k++) {
            int at = start(o) + k * dilation;
            if (padding ? at < in + padEnd : at >= 0 && at < in) {
                count++;
            }
        }
        return count;
    }
}
