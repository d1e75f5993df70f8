package dev.octet.trainer.op.update;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.trainer.collective.RankThreads;
import dev.octet.trainer.cut.Part;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.reference.ReferenceDevice;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.shard.SharedTensor;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.ProgramBuilder;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.rule.AdafactorRule;
import dev.octet.trainer.rule.AdafactorRule.Formula;
import dev.octet.trainer.rule.LambRule;
import dev.octet.trainer.state.BlockCodes;
import dev.octet.trainer.state.StateForm;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalDouble;
import java.util.SplittableRandom;
import java.util.function.Supplier;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Updates of tensors that three ranks share, beside those of one rank that has all of them. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class SharedUpdatesTest {
    private static final Duration DEADLINE = Duration.ofSeconds(20);
    private static final List<Long> SHARES = List.of(1L, 3L, 2L);
    private static final AdafactorRule MOMENT =
            new AdafactorRule(Formula.TRANSFORMERS, 1e-30, 1e-3, 0.5, -0.7, OptionalDouble.of(0.9), true, false, false);

    /** The step of an optimizer, with the types of its inputs and the numbers of those that it changes, in the order of outputs. */
    private record Update(Op op, List<OperandType> inputs, List<Integer> changed) {}

    private interface Made {
        Update of(OperandType p, SharedTensor whole);
    }

    private static OperandType f32(Shape shape) {
        return new OperandType(DType.F32, shape);
    }

    private static Update adafactor(AdafactorRule rule, OperandType p, SharedTensor whole) {
        AdafactorStep op = new AdafactorStep(p, rule, 0.1, whole);
        List<OperandType> inputs = new ArrayList<>(List.of(p, p));
        inputs.addAll(List.of(UpdateOp.SCALAR, UpdateOp.SCALAR, UpdateOp.SCALAR, UpdateOp.SCALAR));
        inputs.addAll(rule.memory(p).values());
        List<Integer> changed = new ArrayList<>();
        for (int j = 0; j < op.kept(); j++) {
            changed.add(AdafactorStep.input(j));
        }
        return new Update(op, inputs, changed);
    }

    private static Made made(String what) {
        return switch (what) {
            case "adafactor" -> (p, whole) -> adafactor(MOMENT, p, whole);
            case "torch's adafactor" -> (p, whole) -> adafactor(AdafactorRule.TORCH, p, whole);
            case "lamb" ->
                (p, whole) -> new Update(
                        new TrustRatio(p, p, 0.9, 0.99, 1e-6, 0.1, LambRule.APEX, whole),
                        List.of(p, p, p, p, UpdateOp.SCALAR, UpdateOp.SCALAR, UpdateOp.SCALAR),
                        List.of(6));
            case "stableadamw" ->
                (p, whole) -> new Update(
                        new UpdateRms(p, p, 0.9, 1e-8, whole),
                        List.of(p, p, UpdateOp.SCALAR, UpdateOp.SCALAR, UpdateOp.SCALAR),
                        List.of(4));
            default -> throw new IllegalArgumentException(what);
        };
    }

    /** Numbers of an input; those of second moments, counts and rates are above 0. */
    private static Tensor numbers(int input, OperandType type, Arena arena) {
        SplittableRandom random = new SplittableRandom(input);
        float[] x = new float[Math.toIntExact(type.count())];
        for (int i = 0; i < x.length; i++) {
            x[i] = (float) (input < 2 ? random.nextDouble(-1, 1) : random.nextDouble(0.5, 1.5));
        }
        return Tensor.ofFloats(arena, "x" + input, type.shape(), x);
    }

    private static Tensor input(Update update, int i, Arena arena) {
        Tensor x = numbers(i, update.inputs.get(i), arena);
        boolean leftOut = update.op instanceof AdafactorStep && i == 5;
        return leftOut ? Tensor.ofFloats(arena, x.name(), x.shape(), 0) : x;
    }

    private static List<float[]> run(Update update, List<Tensor> inputs, Supplier<Device> on) {
        ProgramBuilder builder = new ProgramBuilder();
        List<Value> x = new ArrayList<>();
        for (int i = 0; i < inputs.size(); i++) {
            x.add(builder.state("x" + i, update.inputs.get(i)));
        }
        boolean measures = !(update.op instanceof AdafactorStep); // what is measured is no input
        List<Value> read = measures ? x.subList(0, x.size() - 1) : x;
        builder.step(
                Phase.UPDATE,
                "n",
                update.op,
                List.copyOf(read),
                update.changed.stream().map(x::get).toList());
        try (Device device = on.get();
                Memory memory = device.allocate(builder.build().lasting());
                Executable executable = device.load(builder.build(), memory);
                Arena arena = Arena.ofConfined()) {
            for (int i = 0; i < x.size(); i++) {
                memory.write(x.get(i), inputs.get(i).bytes());
            }
            executable.run(Phase.UPDATE);
            List<float[]> changed = new ArrayList<>();
            for (int i : update.changed) {
                var bytes = arena.allocate(x.get(i).type().byteSize(), 64);
                memory.read(x.get(i), bytes);
                changed.add(bytes.toArray(Tensor.F32_LE));
            }
            return changed;
        }
    }

    private static Part part(OperandType whole, OperandType own, int rank) {
        for (int axis = 0; axis < whole.shape().rank(); axis++) {
            if (whole.shape().dim(axis) != own.shape().dim(axis)) {
                long from = SHARES.subList(0, rank).stream()
                        .mapToLong(Long::longValue)
                        .sum();
                return new Part(whole.shape(), axis, List.of(new Part.Range(from, from + SHARES.get(rank))));
            }
        }
        return new Part(
                whole.shape(), 0, List.of(new Part.Range(0, whole.shape().dim(0))));
    }

    private static Tensor cut(OperandType whole, OperandType own, int rank, Tensor x, Arena arena) {
        return whole.equals(own) ? x : part(whole, own, rank).of(x, arena);
    }

    @ParameterizedTest
    @CsvSource({
        "adafactor, 0",
        "adafactor, 1",
        "adafactor, 2",
        "torch's adafactor, 0",
        "torch's adafactor, 1",
        "torch's adafactor, 2",
        "lamb, 1",
        "stableadamw, 0"
    })
    void a_part_takes_its_part_of_the_step_of_the_whole_tensor(String what, int axis) {
        long[] dims = {4, 5, 7};
        dims[axis] = 6;
        Shape all = Shape.of(dims);
        List<Supplier<Device>> twins = List.of(() -> CpuDevice.of(1), ReferenceDevice::new);
        for (Supplier<Device> twin : twins) {
            Update one = made(what).of(f32(all), SharedTensor.alone(all));
            try (Arena arena = Arena.ofShared()) {
                List<Tensor> inputs = new ArrayList<>();
                for (int i = 0; i < one.inputs.size(); i++) {
                    inputs.add(input(one, i, arena));
                }
                List<float[]> expected = run(one, inputs, twin);
                RankThreads.run(3, DEADLINE, world -> {
                    int r = world.rank();
                    long[] mine = all.toArray();
                    mine[axis] = SHARES.get(r);
                    Update part = made(what).of(f32(Shape.of(mine)), new SharedTensor(all, axis, 1, SHARES, r, world));
                    List<Tensor> own = new ArrayList<>();
                    for (int i = 0; i < inputs.size(); i++) {
                        own.add(cut(one.inputs.get(i), part.inputs.get(i), r, inputs.get(i), arena));
                    }
                    List<float[]> got = run(part, own, twin);
                    for (int j = 0; j < got.size(); j++) {
                        int i = one.changed.get(j);
                        Tensor whole =
                                Tensor.ofFloats(arena, "y", one.inputs.get(i).shape(), expected.get(j));
                        Tensor wanted = cut(one.inputs.get(i), part.inputs.get(i), r, whole, arena);
                        // sums are added in another order
                        assertArrayEquals(wanted.toFloats(), got.get(j), 1e-6f, what + ", output " + j);
                    }
                    return r;
                });
            }
        }
    }

    @Test
    void one_scale_of_the_whole_tensor_belongs_to_the_codes_of_all_parts() {
        Shape all = Shape.of(6, 40);
        StateForm fused = new StateForm.Fused(DType.F8_E4M3FN);
        List<Float> scales = RankThreads.run(3, DEADLINE, world -> {
            int r = world.rank();
            OperandType p = f32(Shape.of(SHARES.get(r), 40));
            SharedTensor whole = new SharedTensor(all, 0, 1, SHARES, r, world);
            SgdStep rule = new SgdStep(p, p, 0, 0, 0, false);
            CodedStep op = new CodedStep(rule, fused, StateForm.Plain.F32, List.of(), 0, whole);
            ProgramBuilder builder = new ProgramBuilder();
            List<Value> kept = builder.keptState("p", fused, p);
            List<Value> inputs = new ArrayList<>(kept);
            inputs.add(builder.state("g", p, r + 1)); // the largest on the last rank
            inputs.add(builder.state("lr", UpdateOp.SCALAR, 1));
            inputs.add(builder.state("t", UpdateOp.SCALAR, 1));
            inputs.add(builder.state("factor", UpdateOp.SCALAR, 1));
            inputs.add(builder.state("leftOut", UpdateOp.SCALAR, 0));
            builder.step(Phase.UPDATE, "n", op, List.copyOf(inputs), List.copyOf(kept));
            try (Device device = CpuDevice.of(1);
                    Memory memory = device.allocate(builder.build().lasting());
                    Executable executable = device.load(builder.build(), memory);
                    Arena arena = Arena.ofConfined()) {
                executable.run(Phase.UPDATE);
                var scale = arena.allocate(4, 64);
                memory.read(kept.get(1), scale);
                return scale.get(Tensor.F32_LE, 0);
            }
        });
        assertEquals(List.of(3f / 448, 3f / 448, 3f / 448), scales);
    }

    private static final List<BlockCodes> MOMENTS = List.of(BlockCodes.INT8, BlockCodes.UINT8);

    /** Codes and scales of both moments after two steps. */
    private static List<byte[]> moments(Tensor p, Tensor g, SharedTensor whole) {
        OperandType type = f32(p.shape());
        List<StateForm> forms = MOMENTS.stream()
                .<StateForm>map(codes -> whole.isShared()
                        ? new StateForm.BlockedPart(
                                codes, whole.whole().elementCount(), whole.run(), whole.stride(), whole.first())
                        : new StateForm.Blocked(codes))
                .toList();
        AdamStep rule = new AdamStep(type, type, 0.9, 0.99, 1e-8, 0.1, AdamStep.Variant.ADAMW);
        CodedStep op = new CodedStep(rule, StateForm.Plain.F32, StateForm.Plain.F32, forms, 0, whole);
        ProgramBuilder builder = new ProgramBuilder();
        Value weight = builder.state("p", type);
        Value gradient = builder.state("g", type);
        List<Value> kept = new ArrayList<>(builder.keptState("m", forms.getFirst(), type));
        kept.addAll(builder.keptState("v", forms.getLast(), type));
        List<Value> changed = new ArrayList<>(List.of(weight));
        changed.addAll(kept);
        List<Value> inputs = new ArrayList<>(List.of(weight, gradient));
        inputs.addAll(kept);
        inputs.add(builder.state("lr", UpdateOp.SCALAR, 0.1f));
        inputs.add(builder.state("t", UpdateOp.SCALAR, 1));
        inputs.add(builder.state("factor", UpdateOp.SCALAR, 1));
        inputs.add(builder.state("leftOut", UpdateOp.SCALAR, 0));
        builder.step(Phase.UPDATE, "n", op, List.copyOf(inputs), List.copyOf(changed));
        try (Device device = CpuDevice.of(2);
                Memory memory = device.allocate(builder.build().lasting());
                Executable executable = device.load(builder.build(), memory);
                Arena arena = Arena.ofConfined()) {
            memory.write(weight, p.bytes());
            memory.write(gradient, g.bytes());
            executable.run(Phase.UPDATE);
            executable.run(Phase.UPDATE);
            List<byte[]> all = new ArrayList<>();
            for (Value v : kept) {
                var bytes = arena.allocate(v.type().byteSize(), 64);
                memory.read(v, bytes);
                all.add(bytes.toArray(ValueLayout.JAVA_BYTE));
            }
            return all;
        }
    }

    /** A block of 256 elements is that of neighbours of the whole tensor, wherever it is cut. */
    @ParameterizedTest
    @CsvSource({"6, 1024, 0", "1024, 6, 1", "6, 128, 0"})
    void blocks_of_moments_are_those_of_the_whole_tensor(int rows, int columns, int axis) {
        Shape whole = Shape.of(rows, columns);
        try (Arena arena = Arena.ofShared()) {
            Tensor p = numbers(0, f32(whole), arena);
            Tensor g = numbers(1, f32(whole), arena);
            List<byte[]> expected = moments(p, g, SharedTensor.alone(whole));
            RankThreads.run(3, DEADLINE, world -> {
                int r = world.rank();
                long from =
                        SHARES.subList(0, r).stream().mapToLong(Long::longValue).sum();
                Part part = new Part(whole, axis, List.of(new Part.Range(from, from + SHARES.get(r))));
                SharedTensor of = new SharedTensor(whole, axis, 1, SHARES, r, world);
                List<byte[]> got = moments(part.of(p, arena), part.of(g, arena), of);
                for (int k = 0; k < 4; k += 2) {
                    TensorSpec spec = new TensorSpec("codes", DType.U8, whole);
                    Tensor codes = new Tensor(spec, MemorySegment.ofArray(expected.get(k)));
                    assertArrayEquals(
                            part.of(codes, arena).bytes().toArray(ValueLayout.JAVA_BYTE), got.get(k), "codes " + k);
                    assertArrayEquals(expected.get(k + 1), got.get(k + 1), "scales " + k);
                }
                return r;
            });
        }
    }

    @ParameterizedTest
    @CsvSource({"0, 1", "1, 1", "1, 2", "2, 1"})
    void what_is_taken_of_what_was_gathered_is_the_part(int axis, int segments) {
        long[] dims = {4, 5, 7};
        dims[axis] = 6L * segments;
        Shape all = Shape.of(dims);
        RankThreads.run(3, DEADLINE, world -> {
            int r = world.rank();
            SharedTensor whole = new SharedTensor(all, axis, segments, SHARES, r, world);
            long from = SHARES.subList(0, r).stream().mapToLong(Long::longValue).sum();
            List<Part.Range> ranges = new ArrayList<>();
            for (int s = 0; s < segments; s++) {
                ranges.add(new Part.Range(6L * s + from, 6L * s + from + SHARES.get(r)));
            }
            Part part = new Part(all, axis, ranges);
            ProgramBuilder builder = new ProgramBuilder();
            Value own = builder.state("own", f32(part.shape()));
            Value gathered = builder.state("gathered", f32(all));
            Value taken = builder.state("taken", f32(part.shape()));
            builder.step(Phase.UPDATE, "n", whole.gather(DType.F32), List.of(own), List.of(gathered));
            builder.step(Phase.UPDATE, "n", whole.take(DType.F32), List.of(gathered), List.of(taken));
            try (Device device = CpuDevice.of(1);
                    Memory memory = device.allocate(builder.build().lasting());
                    Executable executable = device.load(builder.build(), memory);
                    Arena arena = Arena.ofConfined()) {
                Tensor x = numbers(1, f32(all), arena);
                memory.write(own, part.of(x, arena).bytes());
                executable.run(Phase.UPDATE);
                var bytes = arena.allocate(f32(all).byteSize(), 64);
                memory.read(gathered, bytes);
                assertArrayEquals(x.toFloats(), bytes.toArray(Tensor.F32_LE));
                var mine = arena.allocate(f32(part.shape()).byteSize(), 64);
                memory.read(taken, mine);
                assertArrayEquals(part.of(x, arena).toFloats(), mine.toArray(Tensor.F32_LE));
            }
            return r;
        });
    }
}
