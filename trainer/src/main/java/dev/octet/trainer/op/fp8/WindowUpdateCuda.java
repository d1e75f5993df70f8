package dev.octet.trainer.op.fp8;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;

/** All slots in one launch, a thread each. */
public final class WindowUpdateCuda implements CudaKernel.Forward<WindowUpdate> {
    private static final int WORDS = 7;

    @Override
    public void forward(WindowUpdate op, Frame<CudaTensor> frame, CudaStream cuda) {
        int slots = op.slots().size();
        long[] table = new long[slots * WORDS];
        for (int i = 0; i < slots; i++) {
            WindowUpdate.Slot s = op.slots().get(i);
            int at = i * WORDS;
            table[at] = frame.input(2 * i + 1).address();
            table[at + 1] = frame.input(2 * i + 2).address();
            table[at + 2] = frame.output(2 * i).address();
            table[at + 3] = frame.output(2 * i + 1).address();
            table[at + 4] = s.rule().size();
            table[at + 5] =
                    Integer.toUnsignedLong(Float.floatToRawIntBits(s.format().maxValue()));
            table[at + 6] = s.rule().rule().quirks() ? 1 : 0;
        }
        cuda.launch(
                CudaCodes.SOURCE,
                "window_update",
                Grid.over(slots, 32, 1),
                cuda.table(table),
                (long) slots,
                frame.input(0));
    }
}
