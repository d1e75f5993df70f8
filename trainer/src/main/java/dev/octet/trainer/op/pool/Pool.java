package dev.octet.trainer.op.pool;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import java.util.ArrayList;
import java.util.List;

/**
 * The largest, or the mean, of each window of each plane of x [N, C, ..], with one to three axes behind the channels (ONNX MaxPool 12,
 * AveragePool 19, GlobalMaxPool, GlobalAveragePool 1). Of equal elements the first is the largest, as torch has it; NaN is larger than
 * everything. Saved by a maximum: where in its plane it was.
 *
 * @param name the ONNX operator
 * @param windows along the three last axes; those that are not there have size 1
 * @param countsPadding whether a mean divides by the places in the padding, too
 */
public record Pool(
        String name,
        boolean isMax,
        OperandType x,
        OperandType y,
        int planes,
        List<Windows> windows,
        boolean countsPadding)
        implements Op {
    /** Axes behind the channels. */
    private static final int AXES = 3;

    /** Its row in the table of operators. */
    public static final OpEntry<Pool> ENTRY = OpEntry.of(Pool.class, new PoolReference(), new PoolCpu(), new PoolCuda())
            .onnx("AveragePool", Pool::readAverage)
            .onnx("GlobalAveragePool", Pool::readGlobalAverage)
            .onnx("GlobalMaxPool", Pool::readGlobalMax)
            .onnx("MaxPool", Pool::readMax);

    public Pool {
        windows = List.copyOf(windows);
    }

    /** Reads MaxPool. */
    static Pool readMax(OpSource source) {
        if (!source.node().output(1).isEmpty()) {
            throw source.refusal("its second output, the indices, is used", "use the pooled values only");
        }
        return of(source, true, Windows.read(source), false);
    }

    /** Reads AveragePool. */
    static Pool readAverage(OpSource source) {
        boolean countsPadding = source.node().intAttribute("count_include_pad", 0) != 0;
        return of(source, false, Windows.read(source), countsPadding);
    }

    /** Reads GlobalMaxPool. */
    static Pool readGlobalMax(OpSource source) {
        return of(source, true, whole(source), false);
    }

    /** Reads GlobalAveragePool. */
    static Pool readGlobalAverage(OpSource source) {
        return of(source, false, whole(source), false);
    }

    private static List<Windows> whole(OpSource source) {
        List<Windows> all = new ArrayList<>();
        for (int i = 2; i < source.input(0).shape().rank(); i++) {
            all.add(Windows.whole(Math.toIntExact(source.input(0).shape().dim(i))));
        }
        return all;
    }

    private static Pool of(OpSource source, boolean isMax, List<Windows> windows, boolean countsPadding) {
        if (windows.isEmpty() || windows.size() > AXES) {
            throw source.refusal("its input is " + source.input(0).shape(), "pool over one to three axes");
        }
        return of(source.node().opType(), isMax, source.input(0), windows, countsPadding);
    }

    /** Pools {@code x} with windows along its axes behind the channels. */
    static Pool of(String name, boolean isMax, OperandType x, List<Windows> windows, boolean countsPadding) {
        long[] dims = x.shape().toArray();
        List<Windows> three = new ArrayList<>();
        for (int i = windows.size(); i < AXES; i++) {
            three.add(Windows.whole(1));
        }
        for (int i = 0; i < windows.size(); i++) {
            dims[i + 2] = windows.get(i).out();
            three.add(windows.get(i));
        }
        int planes = Math.toIntExact(x.shape().dim(0) * x.shape().dim(1));
        return new Pool(name, isMax, x, new OperandType(x.dtype(), Shape.of(dims)), planes, three, countsPadding);
    }

    @Override
    public String type() {
        return name;
    }

    /** Elements of a plane of x. */
    int planeIn() {
        return windows.stream().mapToInt(Windows::in).reduce(1, Math::multiplyExact);
    }

    /** Elements of a plane of y. */
    int planeOut() {
        return windows.stream().mapToInt(Windows::out).reduce(1, Math::multiplyExact);
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(y);
    }

    @Override
    public List<OperandType> saved() {
        return isMax ? List.of(y.as(DType.I32)) : List.of();
    }

    @Override
    public boolean backwardReadsInput(int i) {
        return false;
    }

    @Override
    public boolean backwardReadsOutput(int j) {
        return j == 1;
    }

    /** Sees all windows of a plane. */
    interface Visitor {
        /** Window {@code out} looks at the place {@code in}; both count within their planes. */
        void place(int out, int in);
    }

    /** Visits every place of every window that is not a padding, window by window, in order. */
    void visit(Visitor visitor) {
        Windows a = windows.get(0);
        Windows b = windows.get(1);
        Windows c = windows.get(2);
        for (int i = 0; i < a.out(); i++) {
            for (int j = 0; j < b.out(); j++) {
                for (int k = 0; k < c.out(); k++) {
                    window((i * b.out() + j) * c.out() + k, a.start(i), b.start(j), c.start(k), visitor);
                }
            }
        }
    }

    private void window(int out, int startA, int startB, int startC, Visitor visitor) {
        Windows a = windows.get(0);
        Windows b = windows.get(1);
        Windows c = windows.get(2);
        for (int i = startA; i < Math.min(a.in(), startA + a.kernel() * a.dilation()); i += a.dilation()) {
            for (int j = startB; j < Math.min(b.in(), startB + b.kernel() * b.dilation()); j += b.dilation()) {
                for (int k = startC; k < Math.min(c.in(), startC + c.kernel() * c.dilation()); k += c.dilation()) {
                    if (i >= 0 && j >= 0 && k >= 0) {
                        visitor.place(out, (i * b.in() + j) * c.in() + k);
                    }
                }
            }
        }
    }

    /** What each window's sum is divided by. */
    int[] divisors() {
        int[] all = new int[planeOut()];
        Windows b = windows.get(1);
        Windows c = windows.get(2);
        for (int o = 0; o < all.length; o++) {
            all[o] = windows.get(0).places(o / (b.out() * c.out()), countsPadding)
                    * b.places(o / c.out() % b.out(), countsPadding)
                    * c.places(o % c.out(), countsPadding);
        }
        return all;
    }
}
