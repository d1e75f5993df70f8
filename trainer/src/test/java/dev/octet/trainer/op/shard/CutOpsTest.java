package dev.octet.trainer.op.shard;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankThreads;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.device.reference.ReferenceDevice;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.Ops;
import dev.octet.trainer.op.gather.CutGather;
import dev.octet.trainer.op.loss.CutCrossEntropyLoss;
import dev.octet.trainer.op.shard.RankExchange.Kind;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.ProgramBuilder;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import java.lang.foreign.Arena;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Operators of graphs that are cut, on several ranks, beside the operators that they are the parts of. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CutOpsTest {
    private static final Duration DEADLINE = Duration.ofSeconds(20);

    enum Twin {
        CPU,
        GPU,
        REFERENCE;

        private Device device() {
            return switch (this) {
                case CPU -> CpuDevice.of(2);
                case GPU -> TestGpus.ownDevice();
                case REFERENCE -> new ReferenceDevice();
            };
        }
    }

    /** The first output, and the gradient of the first input. */
    private static final class Both {
        private final float[] y;
        private final float[] dx;

        Both(float[] y, float[] dx) {
            this.y = y;
            this.dx = dx;
        }
    }

    /** Runs an operator forward and backward. */
    private static Both run(Twin twin, Op op, List<float[]> inputs, List<OperandType> types, float[] upstream) {
        return run(twin.device(), op, inputs, types, upstream);
    }

    private static Both run(Device opened, Op op, List<float[]> inputs, List<OperandType> types, float[] upstream) {
        ProgramBuilder builder = new ProgramBuilder();
        List<Value> x = new ArrayList<>();
        for (int i = 0; i < types.size(); i++) {
            x.add(builder.state("x" + i, types.get(i)));
        }
        Value y = builder.state("y", op.outputs().getFirst());
        List<Value> outputs = new ArrayList<>(List.of(y));
        for (int i = 0; i < op.saved().size(); i++) {
            outputs.add(builder.state("saved" + i, op.saved().get(i)));
        }
        Value dy = builder.state("dy", y.type());
        Value dx = builder.state("dx", types.getFirst());
        List<Value> gradients = new ArrayList<>(Collections.nCopies(types.size(), null));
        gradients.set(0, dx);
        builder.add(new Step(
                Phase.FORWARD, "n", op, false, List.copyOf(x), List.copyOf(outputs), List.of(), List.of(), Set.of()));
        builder.add(new Step(
                Phase.BACKWARD, "n", op, true, List.copyOf(x), List.copyOf(outputs), List.of(dy), gradients, Set.of()));
        try (Device device = opened;
                Memory memory = device.allocate(builder.build().lasting());
                Executable executable = device.load(builder.build(), memory);
                Arena arena = Arena.ofConfined()) {
            for (int i = 0; i < x.size(); i++) {
                memory.write(x.get(i), tensor(x.get(i), inputs.get(i), arena).bytes());
            }
            memory.write(dy, tensor(dy, upstream, arena).bytes());
            executable.run(Phase.FORWARD);
            executable.run(Phase.BACKWARD);
            return new Both(read(memory, y, arena), read(memory, dx, arena));
        }
    }

    private static CpuTensor tensor(Value v, float[] elements, Arena arena) {
        CpuTensor t = new CpuTensor(
                v.type(),
                arena.allocate(Math.max(1, v.type().byteSize()), 64)
                        .asSlice(0, v.type().byteSize()));
        for (int i = 0; i < elements.length; i++) {
            t.writeNumber(i, elements[i]);
        }
        return t;
    }

    private static float[] read(Memory memory, Value v, Arena arena) {
        CpuTensor t = tensor(v, new float[0], arena);
        memory.read(v, t.bytes());
        float[] all = new float[(int) t.count()];
        t.read(0, all, 0, all.length);
        return all;
    }

    private static Op read(Node node, List<OperandType> types) {
        return Ops.reader(node)
                .orElseThrow()
                .read(new OpSource(node, List.copyOf(types), Collections.nCopies(types.size(), null), 1));
    }

    private static Op among(Node node, List<OperandType> types, Collectives ranks) {
        return read(node, types) instanceof GroupOp op ? op.among(ranks) : read(node, types);
    }

    private static OperandType f32(long... dims) {
        return new OperandType(DType.F32, Shape.of(dims));
    }

    private static float[] numbers(long seed, int count) {
        SplittableRandom random = new SplittableRandom(seed);
        float[] all = new float[count];
        for (int i = 0; i < count; i++) {
            all[i] = (float) (random.nextDouble() - 0.5);
        }
        return all;
    }

    /** Columns {@code from .. to - 1} of a matrix. */
    private static float[] columns(float[] all, int width, int from, int to) {
        float[] some = new float[all.length / width * (to - from)];
        for (int i = 0; i < some.length; i++) {
            some[i] = all[i / (to - from) * width + from + i % (to - from)];
        }
        return some;
    }

    @ParameterizedTest
    @EnumSource
    void what_enters_stays_and_its_gradients_are_added_up_and_what_leaves_the_other_way_round(Twin twin) {
        List<OperandType> types = List.of(f32(2, 5));
        for (Kind kind : List.of(Kind.ENTER, Kind.LEAVE)) {
            Node node = RankExchange.node("n", kind, "x", "y");
            List<Both> got = RankThreads.run(
                    3,
                    DEADLINE,
                    world -> run(
                            twin,
                            among(node, types, world),
                            List.of(numbers(world.rank(), 10)),
                            types,
                            numbers(10 + world.rank(), 10)));
            for (int rank = 0; rank < 3; rank++) {
                boolean enters = kind == Kind.ENTER;
                float[] x = numbers(rank, 10);
                float[] dy = numbers(10 + rank, 10);
                for (int i = 0; i < 10; i++) {
                    float sum = numbers(0, 10)[i] + numbers(1, 10)[i] + numbers(2, 10)[i];
                    float gradients = numbers(10, 10)[i] + numbers(11, 10)[i] + numbers(12, 10)[i];
                    assertEquals(enters ? x[i] : sum, got.get(rank).y[i], 1e-6);
                    assertEquals(enters ? gradients : dy[i], got.get(rank).dx[i], 1e-6);
                }
            }
        }
    }

    /** Two samples of five positions with three numbers each, of which ranks have one, two and two positions. */
    @ParameterizedTest
    @EnumSource
    void extremes_of_parts_become_those_of_the_whole(Twin twin) {
        List<OperandType> types = List.of(f32(2, 5));
        float[][] each = {numbers(0, 10), numbers(1, 10), numbers(2, 10)};
        for (Kind kind : List.of(Kind.LARGEST, Kind.LEAST)) {
            Node node = RankExchange.node("n", kind, "x", "y");
            List<Both> got = RankThreads.run(
                    3,
                    DEADLINE,
                    world -> run(twin, among(node, types, world), List.of(each[world.rank()]), types, new float[10]));
            for (int i = 0; i < 10; i++) {
                float[] all = {each[0][i], each[1][i], each[2][i]};
                Arrays.sort(all);
                for (Both rank : got) {
                    assertEquals(kind == Kind.LARGEST ? all[2] : all[0], rank.y[i]);
                }
            }
        }
    }

    @ParameterizedTest
    @EnumSource
    void shares_of_an_axis_are_gathered_and_sums_are_shared_out_forward_and_backward(Twin twin) {
        List<Long> shares = List.of(1L, 2L, 2L);
        int[] from = {0, 1, 3, 5};
        for (Kind kind : List.of(Kind.ENTER_FROM_SHARES, Kind.LEAVE_TO_SHARES, Kind.TO_SHARES, Kind.FROM_SHARES)) {
            boolean gathers = kind == Kind.ENTER_FROM_SHARES || kind == Kind.FROM_SHARES;
            boolean sums = kind == Kind.ENTER_FROM_SHARES || kind == Kind.LEAVE_TO_SHARES;
            List<Both> got = RankThreads.run(3, DEADLINE, world -> {
                int r = world.rank();
                Shape own = Shape.of(2, shares.get(r), 3);
                OperandType x = gathers ? new OperandType(DType.F32, own) : f32(2, 5, 3);
                Node node = RankExchange.node("n", kind, "x", "y", 2, shares, r, gathers ? Shape.of(2, 5, 3) : own);
                float[] whole = numbers(sums ? r : 0, 30);
                float[] share = columns(numbers(7, 30), 15, 3 * from[r], 3 * from[r + 1]);
                return run(
                        twin,
                        among(node, List.of(x), world),
                        List.of(gathers ? share : whole),
                        List.of(x),
                        gathers ? whole : share);
            });
            float[] all = numbers(7, 30);
            float[] sum = numbers(0, 30);
            for (int i = 0; i < 30 && sums; i++) {
                sum[i] += numbers(1, 30)[i] + numbers(2, 30)[i];
            }
            for (int r = 0; r < 3; r++) {
                float[] mine = columns(sum, 15, 3 * from[r], 3 * from[r + 1]);
                assertArrayEquals(gathers ? all : mine, got.get(r).y, 1e-6f, kind + " of rank " + r);
                assertArrayEquals(gathers ? mine : all, got.get(r).dx, 1e-6f, "back: " + kind + " of rank " + r);
            }
        }
    }

    @Test
    void a_GPU_takes_its_share_of_many_rows_in_one_launch() {
        List<OperandType> types = List.of(f32(200, 5));
        Shape own = Shape.of(200, 3);
        Node node = RankExchange.node("n", Kind.TO_SHARES, "x", "y", 200, List.of(2L, 3L), 1, own);
        AtomicInteger copies = new AtomicInteger();
        List<Both> got = RankThreads.run(2, DEADLINE, world -> {
            boolean isSecond = world.rank() == 1;
            Node of = isSecond
                    ? node
                    : RankExchange.node("n", Kind.TO_SHARES, "x", "y", 200, List.of(2L, 3L), 0, Shape.of(200, 2));
            return run(
                    isSecond ? TestGpus.countingCopies(copies) : Twin.CPU.device(),
                    among(of, types, world),
                    List.of(numbers(7, 1000)),
                    types,
                    new float[isSecond ? 600 : 400]);
        });
        assertArrayEquals(columns(numbers(7, 1000), 5, 2, 5), got.get(1).y);
        assertEquals(0, copies.get());
    }

    @Test
    void a_sum_of_BF16_is_rounded_once() {
        OperandType type = new OperandType(DType.BF16, Shape.of(1));
        Node node = RankExchange.node("n", Kind.LEAVE, "x", "y");
        List<Both> got = RankThreads.run(
                3,
                DEADLINE,
                world -> run(
                        Twin.CPU,
                        among(node, List.of(type), world),
                        List.of(new float[] {world.isFirst() ? 256 : 0.75f}),
                        List.of(type),
                        new float[] {1}));
        assertEquals(258, got.getFirst().y[0], "256.75 would be rounded to 256, and 256.75 again");
    }

    @ParameterizedTest
    @EnumSource
    void rows_of_a_table_that_ranks_share_add_up_to_those_of_the_whole_table(Twin twin) {
        float[] table = numbers(1, 10 * 4);
        float[] ids = {3, 9, 0, 3, 6, 2};
        float[] dy = numbers(2, 24);
        OperandType indices = new OperandType(DType.I64, Shape.of(2, 3));
        Node whole = Node.of("n", "Gather", List.of("t", "i"), List.of("y"), Attribute.of("axis", 0L))
                .withMetadata(Map.of(Node.PADDING_INDEX, "6"));
        List<OperandType> types = List.of(f32(10, 4), indices);
        Both expected = run(twin, read(whole, types), List.of(table, ids), types, dy);
        float[] sum = new float[24];
        List<Both> got = RankThreads.run(3, DEADLINE, world -> {
            int first = 10 * world.rank() / 3;
            int end = 10 * (world.rank() + 1) / 3;
            List<OperandType> own = List.of(f32(end - first, 4), indices);
            return run(
                    twin,
                    read(CutGather.node(whole, first, end - first, 10), own),
                    List.of(Arrays.copyOfRange(table, 4 * first, 4 * end), ids),
                    own,
                    dy);
        });
        for (Both rank : got) {
            for (int i = 0; i < sum.length; i++) {
                sum[i] += rank.y[i];
            }
        }
        assertArrayEquals(expected.y, sum);
        float[] dx = new float[40];
        int at = 0;
        for (Both rank : got) {
            System.arraycopy(rank.dx, 0, dx, at, rank.dx.length);
            at += rank.dx.length;
        }
        assertArrayEquals(expected.dx, dx);
        assertEquals(0, dx[6 * 4], "the row of the padding has no gradient");
    }

    @Test
    void an_index_outside_of_the_whole_table_is_refused_by_all_ranks() {
        OperandType indices = new OperandType(DType.I64, Shape.of(1));
        Node whole = Node.of("n", "Gather", List.of("t", "i"), List.of("y"));
        UnavailableException failed = assertThrows(
                UnavailableException.class,
                () -> RankThreads.run(2, DEADLINE, world -> {
                    List<OperandType> own = List.of(f32(5, 2), indices);
                    Op op = read(CutGather.node(whole, 5L * world.rank(), 5, 10), own);
                    return run(Twin.CPU, op, List.of(new float[10], new float[] {10}), own, new float[2]);
                }));
        InvalidDataException why = assertInstanceOf(InvalidDataException.class, failed.getCause());
        assertEquals("index 10 (number 0) is out of range for an axis of 10 elements", why.what());
    }

    /** Scores of eleven classes for two samples of four positions; ranks have three or four classes. */
    @ParameterizedTest
    @CsvSource({
        "CPU, mean, 0, 0",
        "CPU, mean, 1, 0",
        "CPU, none, 1, 0",
        "CPU, mean, 1, 0.1",
        "CPU, mean, 0, 1",
        "GPU, mean, 1, 0",
        "GPU, none, 1, 0",
        "GPU, mean, 1, 0.1",
        "GPU, mean, 0, 1",
        "REFERENCE, mean, 1, 0",
        "REFERENCE, none, 0, 0",
        "REFERENCE, mean, 1, 0.1"
    })
    void the_loss_of_classes_that_ranks_share_is_that_of_all_classes(
            Twin twin, String reduction, long shift, float smoothing) {
        float[] scores = numbers(4, 2 * 4 * 11);
        for (int i = 0; i < scores.length; i++) {
            scores[i] *= 40; // the largest is on one rank, and exponentials of others vanish beside it
        }
        float[] labels = {3, -100, 10, 0, 7, 4, 2, 9};
        OperandType ids = new OperandType(DType.I64, Shape.of(2, 4));
        Node whole = Node.of(
                "n",
                "SoftmaxCrossEntropyLoss",
                Node.OCTET_DOMAIN,
                List.of("x", "l"),
                List.of("y"),
                Attribute.of("reduction", reduction),
                Attribute.of("ignore_index", -100L),
                Attribute.of("shift", shift),
                Attribute.of("label_smoothing", smoothing));
        List<OperandType> types = List.of(f32(2, 4, 11), ids);
        float[] dy = reduction.equals("none") ? numbers(6, 8) : new float[] {3};
        Both expected = run(twin, read(whole, types), List.of(scores, labels), types, dy);
        List<Both> got = RankThreads.run(3, DEADLINE, world -> {
            int first = 11 * world.rank() / 3;
            int end = 11 * (world.rank() + 1) / 3;
            List<OperandType> own = List.of(f32(2, 4, end - first), ids);
            Op op = among(CutCrossEntropyLoss.node(whole, first, 11), own, world);
            return run(twin, op, List.of(columns(scores, 11, first, end), labels), own, dy);
        });
        for (int r = 0; r < 3; r++) {
            assertArrayEquals(expected.y, got.get(r).y, 1e-6f * 20, "loss of rank " + r);
            float[] dx = columns(expected.dx, 11, 11 * r / 3, 11 * (r + 1) / 3);
            assertArrayEquals(dx, got.get(r).dx, 1e-6f, "gradients of rank " + r);
        }
        assertArrayEquals(got.getFirst().y, got.getLast().y, "all have the same loss");
    }

    @ParameterizedTest
    @ValueSource(ints = {11, -1})
    void a_label_that_is_no_class_of_any_rank_is_refused(int label) {
        OperandType ids = new OperandType(DType.I64, Shape.of(1));
        Node whole = Node.of("n", "SoftmaxCrossEntropyLoss", Node.OCTET_DOMAIN, List.of("x", "l"), List.of("y"));
        UnavailableException failed = assertThrows(
                UnavailableException.class,
                () -> RankThreads.run(2, DEADLINE, world -> {
                    int own = world.isFirst() ? 5 : 6;
                    List<OperandType> types = List.of(f32(1, own), ids);
                    Op op = among(CutCrossEntropyLoss.node(whole, world.isFirst() ? 0 : 5, 11), types, world);
                    return run(Twin.CPU, op, List.of(new float[own], new float[] {label}), types, new float[1]);
                }));
        InvalidDataException why = assertInstanceOf(InvalidDataException.class, failed.getCause());
        assertEquals("label [0] is " + label + ", classes are 0 to 10", why.what());
    }

    @ParameterizedTest
    @EnumSource
    void single_numbers_of_all_ranks_are_added_up_in_F64(Twin twin) {
        OperandType number = new OperandType(DType.F64, Shape.SCALAR);
        List<Double> got = RankThreads.run(3, DEADLINE, world -> {
            ProgramBuilder builder = new ProgramBuilder();
            Value x = builder.state("x", number);
            SumNumbers op = new SumNumbers(List.of(number), world.rank(), world);
            builder.step(Phase.UPDATE, "n", op, List.of(x), List.of(x));
            try (Device device = twin.device();
                    Memory memory = device.allocate(builder.build().lasting());
                    Executable executable = device.load(builder.build(), memory);
                    Arena arena = Arena.ofConfined()) {
                CpuTensor t = new CpuTensor(number, arena.allocate(8, 8));
                t.writeNumber(0, world.isFirst() ? 1 : 1e-12);
                memory.write(x, t.bytes());
                executable.run(Phase.UPDATE);
                memory.read(x, t.bytes());
                return t.readNumber(0);
            }
        });
        assertEquals(List.of(1 + 1e-12 + 1e-12, 1 + 1e-12 + 1e-12, 1 + 1e-12 + 1e-12), got);
    }

    @Test
    void a_printed_step_does_not_depend_on_what_joins_the_ranks() {
        Node node = RankExchange.node("n", Kind.LEAVE, "x", "y");
        assertEquals(
                "RankExchange[LEAVE, F32 [2] -> F32 [2], rank=0, shares=[]]",
                among(node, List.of(f32(2)), Collectives.alone()).toString());
        assertEquals("SumNumbers[1, rank=1]", new SumNumbers(List.of(f32(1)), 1, Collectives.alone()).toString());
    }
}
