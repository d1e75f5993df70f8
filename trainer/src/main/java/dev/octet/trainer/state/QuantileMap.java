package dev.octet.trainer.state;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The numbers that quantile codes stand for, ascending, within -1 to 1: torchao's {@code create_dynamic_map} (torchao/optim/quant_utils.py; Dettmers,
 * arXiv:1511.04561) and, for unsigned 4-bit codes, 1/16 to 1 evenly spaced.
 */
final class QuantileMap {
    private static final QuantileMap INT8 = new QuantileMap(dynamic(true, 7, 8));
    private static final QuantileMap UINT8 = new QuantileMap(dynamic(false, 7, 8));
    private static final QuantileMap INT4 = new QuantileMap(dynamic(true, 3, 4));
    private static final QuantileMap UINT4 = new QuantileMap(even());

    private final float[] values;

    private QuantileMap(float[] values) {
        this.values = values;
    }

    static QuantileMap of(BlockCodes codes) {
        return switch (codes) {
            case INT8 -> INT8;
            case UINT8 -> UINT8;
            case INT4 -> INT4;
            case UINT4 -> UINT4;
            case FP8 -> throw new IllegalArgumentException(codes + " has no quantiles");
        };
    }

    /** The number of a code. */
    float value(int code) {
        return values[code];
    }

    /** All numbers, by code. */
    float[] values() {
        return values.clone();
    }

    /**
     * The code of the number nearest to {@code x}, the higher one halfway, with torchao's arithmetic: {@code x - down >= (up - down) * 0.5} in FP32. NaN has
     * code 0.
     */
    int code(float x) {
        int code = 0;
        for (int step = values.length / 2; step > 0; step /= 2) {
            if (x >= values[code + step]) {
                code += step;
            }
        }
        int up = Math.min(code + 1, values.length - 1);
        return x - values[code] >= (values[up] - values[code]) * 0.5f ? up : code;
    }

    private static float[] even() {
        float[] all = new float[16];
        float[] line = line(0, 1, 17);
        System.arraycopy(line, 1, all, 0, 16);
        return all;
    }

    private static float[] dynamic(boolean signed, int exponentBits, int bits) {
        List<Double> all = new ArrayList<>();
        int fractionBits = bits - 1 - exponentBits; // torchao counts a sign bit either way
        for (int i = 0; i < exponentBits; i++) {
            int items = (1 << (i + fractionBits + (signed ? 0 : 1))) + 1;
            double power = Math.pow(10, i - (exponentBits - 1));
            float[] ends = line(0.1, 1, items);
            for (int k = 0; k + 1 < items; k++) {
                // a tensor times a number: torch rounds the number to FP32 first
                float mean = (ends[k] + ends[k + 1]) / 2;
                all.add((double) ((float) power * mean));
                if (signed) {
                    all.add((double) ((float) -power * mean));
                }
            }
        }
        all.add(0.0);
        all.add(1.0);
        float[] values = new float[all.size()];
        for (int i = 0; i < values.length; i++) {
            values[i] = all.get(i).floatValue();
        }
        Arrays.sort(values);
        return values;
    }

    /** torch.linspace in FP32: from both ends to the middle, with one rounding as its vector code has it. */
    private static float[] line(double start, double end, int items) {
        float[] line = new float[items];
        float step = ((float) end - (float) start) / (items - 1);
        for (int i = 0; i < items; i++) {
            line[i] = i < items / 2 ? Math.fma(step, i, (float) start) : Math.fma(-step, items - 1 - i, (float) end);
        }
        return line;
    }
}
