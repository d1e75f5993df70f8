package dev.octet.trainer.op.stored;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.Indices;

/** Decodes each row where it goes. */
final class StoredRowsCpu implements CpuKernel.Forward<StoredRows> {
    @Override
    public void forward(StoredRows op, Frame<CpuTensor> frame, CpuContext cpu) {
        Tiles table = Tiles.of(op.table(), frame, StoredRows.TABLE);
        CpuTensor y = frame.output(0);
        int[] rows = Indices.resolve(
                op.node(), frame.input(StoredRows.INDICES), op.table().rows());
        long bytes = op.table().cols() * (long) Float.BYTES;
        long grain = Math.max(1, CpuContext.GRAIN / Math.max(1, op.table().cols()));
        cpu.parallel().ranges(rows.length, grain, (from, to) -> {
            for (long i = from; i < to; i++) {
                int row = rows[(int) i];
                table.read(row, row + 1L, DType.F32, y.bytes().asSlice(i * bytes, bytes));
            }
        });
    }
}
