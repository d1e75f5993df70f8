package dev.octet.trainer.op.update;

import dev.octet.quant.number.Float8Format;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.reduction.RankGradient;
import dev.octet.trainer.reduction.SimulatedRanks;

/** The reference twins of averages over ranks: in F64, but codes and their scales with the roundings that define them. */
final class RankAverageReference {
    private RankAverageReference() {}

    static void average(RankAverage op, Frame<double[]> frame) {
        double[] y = frame.output(0);
        for (int i = 0; i < y.length; i++) {
            double sum = 0;
            for (int r = 0; r < op.ranks(); r++) {
                sum += frame.input(r)[i];
            }
            y[i] = sum / op.ranks();
        }
    }

    static void coded(CodedRankAverage op, Frame<double[]> frame) {
        int n = op.rule().ranks();
        float[][] gradients = new float[n][];
        float[] amaxes = new float[n];
        float largest = 0;
        for (int r = 0; r < n; r++) {
            gradients[r] = floats(frame.input(r));
            amaxes[r] = RankGradient.amax(gradients[r]);
            largest = Math.max(largest, amaxes[r]);
        }
        float preScale = (float) frame.input(n + 1)[0];
        SimulatedRanks ranks = new SimulatedRanks(op.rule(), (float) frame.input(n)[0], preScale);
        ranks.agree(amaxes);
        double[] y = frame.output(0);
        byte[] sums = new byte[y.length];
        int saturated = ranks.sum(gradients, y.length, sums);
        for (int i = 0; i < y.length; i++) {
            y[i] = Float8Format.E4M3FN.decode(sums[i] & 0xFF) * ranks.multiplier();
        }
        frame.output(1)[0] = ranks.kept();
        frame.output(2)[0] = op.next(preScale, saturated, largest);
        frame.output(3)[0] = saturated;
    }

    private static float[] floats(double[] from) {
        float[] to = new float[from.length];
        for (int i = 0; i < to.length; i++) {
            to[i] = (float) from[i];
        }
        return to;
    }
}
