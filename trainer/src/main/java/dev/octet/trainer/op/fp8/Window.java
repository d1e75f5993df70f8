package dev.octet.trainer.op.fp8;

import dev.octet.quant.block.Blocks;
import dev.octet.quant.scale.WindowedScale;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Parallel;

/**
 * What one tensor is cast with by {@link WindowedScale}.
 *
 * @param slot format and rule
 * @param quantScale the multiplier so far, F32 [1]
 * @param window F32 [size + 1]
 * @param records whether a cast changes both
 */
record Window(WindowUpdate.Slot slot, CpuTensor quantScale, CpuTensor window, boolean records) {
    /** The multiplier of {@code x}. */
    float cast(CpuTensor x, Blocks blocks, Parallel parallel) {
        WindowedScale rule = slot.rule();
        float[] all = new float[rule.length()];
        float[] before = new float[1];
        window.read(0, all, 0, all.length);
        quantScale.read(0, before, 0, 1);
        // what is cast with an earlier scale leaves NaN out, as Transformer Engine's cast does
        float amax = new MatrixCodes(blocks, parallel).amax(x, rule.isInTime(all))[0];
        float[] now = {rule.cast(all, before[0], amax, slot.format().maxValue())};
        if (records) {
            window.write(0, all, 0, all.length);
            quantScale.write(0, now, 0, 1);
        }
        return now[0];
    }
}
