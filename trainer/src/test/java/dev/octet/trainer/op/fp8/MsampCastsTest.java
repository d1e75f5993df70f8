package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Half;
import dev.octet.quant.scale.MsampScale;
import dev.octet.quant.scale.WindowedScale;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import dev.octet.trainer.state.StateForm;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;

/** The four operators of MS-AMP's scales: reference, CPU and kernels agree on every code, scale and window, also where numbers are not finite. */
class MsampCastsTest extends TwinTest {
    private static final int SIZE = 4;
    private static final double[] SPECIAL = {Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY};

    @Override
    protected List<Case> cases() {
        List<Case> all = new ArrayList<>();
        for (MsampScale rule : List.of(MsampScale.MENDED, MsampScale.ORIGINAL)) {
            windowed(all, rule);
            updates(all, rule);
            states(all, rule);
            sums(all, rule);
        }
        return all;
    }

    /** No rounding is allowed for. */
    @Override
    protected double tolerance(Case c) {
        return 0;
    }

    /** The library's rule takes a logarithm. */
    @Override
    protected boolean isExactEverywhere(Case c) {
        return c.name().contains("MENDED");
    }

    private static String name(String what, MsampScale rule) {
        return what + " " + (rule.quirks() ? "ORIGINAL" : "MENDED");
    }

    private static void windowed(List<Case> all, MsampScale rule) {
        for (DType type : List.of(DType.F32, DType.BF16)) {
            for (Float8Format format : List.of(Float8Format.E4M3FN, Float8Format.E5M2)) {
                windowed(all, rule, new OperandType(type, Shape.of(5, 3, 29)), format, SIZE, 2, 1);
            }
        }
        OperandType one = f32(1);
        OperandType many = f32(71, 130);
        for (double amax :
                new double[] {0, 0x1p-149, 0x1p-119, 1.75, 448, Math.nextDown(1.75f), 3e38, Double.NaN, 1 / 0.0}) {
            for (int steps : new int[] {0, SIZE}) {
                windowed(all, rule, one, Float8Format.E4M3FN, SIZE, steps, amax);
            }
        }
        for (double special : SPECIAL) {
            windowed(all, rule, many, Float8Format.E5M2, SIZE, 1, special);
            windowed(all, rule, many, Float8Format.E5M2, SIZE, SIZE, special);
        }
        windowed(all, rule, many, Float8Format.E4M3FN, 1, 1, 1);
    }

    /** With a window that has seen so many steps; the largest or last element of x is the one given. */
    private static void windowed(
            List<Case> all, MsampScale rule, OperandType x, Float8Format format, int size, int steps, double last) {
        WindowedScale scale = new WindowedScale(rule, size);
        double[] window = new double[scale.length()];
        window[0] = 0.5;
        window[size] = steps;
        double[] values = numbers(x, 3);
        values[values.length - 1] = last;
        for (boolean records : new boolean[] {true, false}) {
            String name = "windowed " + x + " " + format + " size " + size + " step " + steps + " last " + last
                    + (records ? " records" : "");
            add(
                    all,
                    name(name, rule),
                    new QuantizeWindowed(x, format, scale, records),
                    List.of(x, f32(1), f32(window.length)),
                    List.of(values, new double[] {0.125}, window));
        }
    }

    private static void updates(List<Case> all, MsampScale rule) {
        List<WindowUpdate.Slot> slots = new ArrayList<>();
        List<OperandType> types = new ArrayList<>(List.of(f32(1)));
        List<double[]> inputs = new ArrayList<>();
        SplittableRandom random = new SplittableRandom(5);
        for (double pending : new double[] {0, 1.75, 1e-38, 3e38, Double.NaN, 1 / 0.0}) {
            for (int size : new int[] {1, SIZE, WindowedScale.SIZE}) {
                for (Float8Format format : List.of(Float8Format.E4M3FN, Float8Format.E5M2)) {
                    WindowedScale scale = new WindowedScale(rule, size);
                    slots.add(new WindowUpdate.Slot(format, scale));
                    double[] window = new double[scale.length()];
                    for (int i = 1; i < size; i++) {
                        window[i] = (float) (random.nextDouble() * pending);
                        window[i] = Double.isFinite(window[i]) ? window[i] : i;
                    }
                    window[0] = (float) pending;
                    window[size] = random.nextInt(size + 1);
                    types.addAll(List.of(f32(1), f32(window.length)));
                    inputs.addAll(List.of(new double[] {0x1p-7}, window));
                }
            }
        }
        for (double leftOut : new double[] {0, 1}) {
            List<double[]> values = new ArrayList<>(inputs);
            values.addFirst(new double[] {leftOut});
            add(
                    all,
                    name("update of " + slots.size() + " left out " + leftOut, rule),
                    new WindowUpdate(slots),
                    types,
                    values);
        }
    }

    private static void states(List<Case> all, MsampScale rule) {
        for (long[] dims : new long[][] {{1, 1}, {65, 129}}) {
            OperandType tensor = f32(dims);
            OperandType codes = tensor.as(DType.F16);
            StateForm form = new StateForm.PowerOfTwo(DType.F16, rule, StateForm.OfZeros.ONE);
            for (double largest : new double[] {0, 3, 65504}) {
                double[] x = numbers(codes, largest);
                for (double scale : new double[] {0x1p-15, 0x1p9}) {
                    add(
                            all,
                            name("state " + tensor + " up to " + largest + " at " + scale, rule),
                            new QuantizeState(form, tensor, Float8Format.E4M3FN, rule),
                            List.of(codes, f32(1)),
                            List.of(x, new double[] {scale}));
                }
            }
        }
    }

    private static void sums(List<Case> all, MsampScale rule) {
        StateForm.PowerOfTwo form = new StateForm.PowerOfTwo(DType.F8_E4M3FN, rule, StateForm.OfZeros.AS_BEFORE);
        for (long[] dims : new long[][] {{1}, {65, 129}}) {
            OperandType x = f32(dims);
            OperandType codes = x.as(DType.F8_E4M3FN);
            for (DType rounded : List.of(DType.F32, DType.BF16, DType.F16)) {
                for (double last : new double[] {0, 1e5, 3e38, Double.NaN}) {
                    double[] gradient = numbers(codes, 448);
                    double[] added = numbers(x, last == 0 ? 0 : 2);
                    added[added.length - 1] = last;
                    if (last == 0) {
                        gradient = new double[gradient.length];
                    }
                    add(
                            all,
                            name("sum " + x + " to " + rounded + " last " + last, rule),
                            new AccumulateCodes(form, x, rounded),
                            List.of(codes, f32(1), x),
                            List.of(gradient, new double[] {0x1p-7}, added));
                }
            }
        }
    }

    private static void add(List<Case> all, String name, Op op, List<OperandType> types, List<double[]> inputs) {
        all.add(new Case(name, op, types, inputs));
    }

    /** Numbers of a type up to a magnitude. */
    private static double[] numbers(OperandType type, double largest) {
        SplittableRandom random = new SplittableRandom(type.hashCode());
        double[] x = new double[(int) type.count()];
        for (int i = 0; i < x.length; i++) {
            float v = (float) ((2 * random.nextDouble() - 1) * largest);
            x[i] = switch (type.dtype()) {
                case BF16 -> BFloat16.toFloat(BFloat16.fromFloat(v));
                case F16 -> Half.toFloat(Half.fromFloat(v));
                case F8_E4M3FN -> Float8Format.E4M3FN.decode(random.nextInt(127) | random.nextInt(2) << 7);
                default -> v;
            };
        }
        return x;
    }
}
