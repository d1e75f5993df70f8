package dev.octet.trainer.op.fp8;

import dev.octet.quant.scale.AmaxHistory;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** All slots in one launch, a warp each. */
public final class AmaxUpdateCuda implements CudaKernel.Forward<AmaxUpdate> {
    private static final int WORDS = 8;

    @Override
    public void forward(AmaxUpdate op, Frame<CudaTensor> frame, CudaStream cuda) {
        int slots = op.slots().size();
        long[] table = new long[slots * WORDS];
        for (int i = 0; i < slots; i++) {
            AmaxUpdate.Slot s = op.slots().get(i);
            float max = op.fused()
                    ? AmaxHistory.scaledMax(s.format(), s.margin())
                    : s.format().maxValue();
            int at = i * WORDS;
            table[at] = frame.input(2 * i).address();
            table[at + 1] = frame.input(2 * i + 1).address();
            table[at + 2] = frame.output(2 * i).address();
            table[at + 3] = frame.output(2 * i + 1).address();
            table[at + 4] = s.length();
            table[at + 5] = bits(max);
            table[at + 6] = bits((float) Math.scalb(1.0, s.margin()));
            table[at + 7] = s.algorithm() == AmaxHistory.Algorithm.MOST_RECENT ? 1 : 0;
        }
        cuda.launch(CudaCodes.SOURCE, "amax_update", Grid.of(slots, 32), cuda.table(table), op.fused() ? 1 : 0);
    }

    private static long bits(float x) {
        return Integer.toUnsignedLong(Float.floatToRawIntBits(x));
    }
}
