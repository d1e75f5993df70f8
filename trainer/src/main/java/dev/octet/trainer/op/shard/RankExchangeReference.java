package dev.octet.trainer.op.shard;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.function.DoubleBinaryOperator;

/** All that all ranks have goes to each, in F64, which takes what it needs of it. */
final class RankExchangeReference implements ReferenceKernel<RankExchange> {
    @Override
    public void forward(RankExchange op, Frame<double[]> frame) {
        exchange(op, op.kind().forward(), frame.input(0), frame.output(0));
    }

    @Override
    public void backward(RankExchange op, Frame<double[]> frame) {
        exchange(op, op.kind().backward(), frame.upstream(0), frame.gradient(0));
    }

    private static void exchange(RankExchange op, RankExchange.Way way, double[] x, double[] y) {
        switch (way) {
            case KEEP -> System.arraycopy(x, 0, y, 0, y.length);
            case SUM -> System.arraycopy(sum(all(op, x), x.length), 0, y, 0, y.length);
            case LARGEST -> System.arraycopy(reduced(all(op, x), Math::max), 0, y, 0, y.length);
            case LEAST -> System.arraycopy(reduced(all(op, x), Math::min), 0, y, 0, y.length);
            case GATHER -> {
                List<double[]> all = all(op, x);
                for (int r = 0; r < all.size(); r++) {
                    for (int i = 0; i < all.get(r).length; i++) {
                        y[place(op, r, i)] = all.get(r)[i];
                    }
                }
            }
            case SUM_SHARES -> share(op, sum(all(op, x), x.length), y);
            case SHARE -> share(op, x, y);
        }
    }

    private static double[] reduced(List<double[]> all, DoubleBinaryOperator of) {
        double[] result = all.getFirst().clone();
        for (double[] each : all) {
            for (int i = 0; i < result.length; i++) {
                result[i] = of.applyAsDouble(result[i], each[i]);
            }
        }
        return result;
    }

    private static void share(RankExchange op, double[] whole, double[] y) {
        for (int i = 0; i < y.length; i++) {
            y[i] = whole[place(op, op.rank(), i)];
        }
    }

    /** Where element i of a rank's share lies in the whole tensor. */
    private static int place(RankExchange op, int rank, int i) {
        long run = op.shares().get(rank) * op.inner();
        long axis = op.shares().stream().mapToLong(Long::longValue).sum() * op.inner();
        long before =
                op.shares().subList(0, rank).stream().mapToLong(Long::longValue).sum() * op.inner();
        return (int) (i / run * axis + before + i % run);
    }

    private static double[] sum(List<double[]> all, int length) {
        double[] sum = new double[length];
        for (double[] each : all) {
            for (int i = 0; i < length; i++) {
                sum[i] += each[i];
            }
        }
        return sum;
    }

    private static List<double[]> all(RankExchange op, double[] own) {
        ByteBuffer bytes = ByteBuffer.allocate(own.length * Double.BYTES);
        for (double x : own) {
            bytes.putDouble(x);
        }
        List<double[]> all = new ArrayList<>();
        for (byte[] each : op.ranks().gather(bytes.array())) {
            ByteBuffer read = ByteBuffer.wrap(each);
            double[] numbers = new double[each.length / Double.BYTES];
            for (int i = 0; i < numbers.length; i++) {
                numbers[i] = read.getDouble();
            }
            all.add(numbers);
        }
        return all;
    }
}
