package dev.octet.trainer.op.rotary;

import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * ONNX RotaryEmbedding (opset 23): pairs of elements of each head are turned by the angle of their position; elements behind the first
 * {@code rotated} stay.
 *
 * <p>Tables of cosines and sines, [positions, rotated / 2] with position ids [batch, sequence], or [batch or 1, sequence, rotated / 2].
 *
 * @param x [batch, heads, sequence, size] with {@code split}, else [batch, sequence, heads·size]
 * @param tableBatch how many samples the tables have; 0 when position ids choose rows
 * @param positions rows of a table
 * @param rotated elements of a head that are turned; even
 * @param interleaved pairs are neighbours; else element i goes with element i + rotated / 2
 */
public record RotaryEmbedding(
        OperandType x,
        int batch,
        int heads,
        int sequence,
        int size,
        boolean split,
        int tableBatch,
        int positions,
        int rotated,
        boolean interleaved)
        implements Op {
    /** Its row in the table of operators. */
    public static final OpEntry<RotaryEmbedding> ENTRY = OpEntry.of(
                    RotaryEmbedding.class,
                    new RotaryEmbeddingReference(),
                    new RotaryEmbeddingCpu(),
                    new RotaryEmbeddingCuda())
            .onnx("RotaryEmbedding", RotaryEmbedding::read);

    /** Reads ONNX RotaryEmbedding. */
    static RotaryEmbedding read(OpSource source) {
        OperandType x = source.input(0);
        OperandType cos = source.input(1);
        int rank = x.shape().rank();
        boolean split = rank == 4;
        long heads = split ? x.shape().dim(1) : source.node().intAttribute("num_heads", 0);
        boolean ids = source.has(3);
        if ((rank != 3 && rank != 4) || heads <= 0 || cos.shape().rank() != (ids ? 2 : 3)) {
            throw source.refusal(
                    "x is " + x + ", the tables " + cos + ", heads " + heads,
                    "x has 3 axes and num_heads, or 4; tables have 2 axes with position ids, else 3");
        }
        long sequence = x.shape().dim(split ? 2 : 1);
        long size = split ? x.shape().dim(3) : x.shape().dim(2) / heads;
        long rotated = source.node().intAttribute("rotary_embedding_dim", 0);
        rotated = rotated == 0 ? size : rotated;
        long batch = x.shape().dim(0);
        long tables = ids ? 0 : cos.shape().dim(0);
        if (rotated % 2 != 0
                || rotated > size
                || cos.shape().dim(-1) != rotated / 2
                || !cos.shape().equals(source.input(2).shape())
                || (!ids && (cos.shape().dim(1) != sequence || (tables != 1 && tables != batch)))) {
            throw source.refusal("tables " + cos + " do not fit " + x, "check rotary_embedding_dim and the tables");
        }
        return new RotaryEmbedding(
                x,
                Math.toIntExact(batch),
                Math.toIntExact(heads),
                Math.toIntExact(sequence),
                Math.toIntExact(size),
                split,
                (int) tables,
                Math.toIntExact(cos.shape().dim(-2)),
                (int) rotated,
                source.node().intAttribute("interleaved", 0) != 0);
    }

    /** First element of a head at a position of a sample. */
    int start(int b, int h, int s) {
        return split ? ((b * heads + h) * sequence + s) * size : (b * sequence + s) * heads * size + h * size;
    }

    /** First element of the tables' row; {@code id} counts only where there are position ids. */
    int tableRow(int b, int s, long id) {
        int half = rotated / 2;
        if (tableBatch == 0) {
            if (id < 0 || id >= positions) {
                throw new IllegalArgumentException(
                        "position " + id + " is outside of the rotary tables with " + positions + " rows");
            }
            return (int) id * half;
        }
        return ((tableBatch == 1 ? 0 : b) * sequence + s) * half;
    }

    /** Places of pair {@code i} within a head. */
    int first(int i) {
        return interleaved ? 2 * i : i;
    }

    int second(int i) {
        return interleaved ? 2 * i + 1 : i + rotated / 2;
    }

    @Override
    public String type() {
        return "RotaryEmbedding";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(x);
    }

    /** Tables are constants of the model. */
    @Override
    public boolean isDifferentiable(int i) {
        return i == 0;
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return i > 0;
    }
}
