package dev.octet.trainer.op.shard;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

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
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.ProgramBuilder;
import dev.octet.trainer.program.Value;
import java.lang.foreign.Arena;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The steps that ranks do together, on three ranks, with all twins. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RankOpsTest {
    private static final int RANKS = 3;
    private static final List<Integer> OWNERS = List.of(1, 0, 1, 2);

    enum Twin {
        CPU,
        GPU,
        REFERENCE;

        private Device device() {
            return switch (this) {
                case CPU -> CpuDevice.of(1);
                case GPU -> TestGpus.ownDevice();
                case REFERENCE -> new ReferenceDevice();
            };
        }
    }

    private static OperandType type(DType dtype, int i) {
        return new OperandType(dtype, Shape.of(i == 3 ? 4000 : i + 2));
    }

    private static float element(int rank, int tensor, int k) {
        return (rank + 1) * (tensor + 1) + k % 7;
    }

    private static Value made(ProgramBuilder builder, DType dtype, int i) {
        return builder.state("v" + i, type(dtype, i));
    }

    /** Runs a step of all ranks; returns the values that each has afterwards. */
    private static List<List<float[]>> run(Twin twin, DType dtype, Made made) {
        return RankThreads.run(RANKS, Duration.ofSeconds(20), world -> {
            ProgramBuilder builder = new ProgramBuilder();
            List<Value> values = new ArrayList<>();
            for (int i = 0; i < OWNERS.size(); i++) {
                values.add(made(builder, dtype, i));
            }
            made.add(builder, world, values);
            return after(twin, builder.build(), world, values);
        });
    }

    private interface Made {
        void add(ProgramBuilder builder, Collectives world, List<Value> values);
    }

    private static List<float[]> after(Twin twin, Program program, Collectives world, List<Value> values) {
        try (Device device = twin.device();
                Memory memory = device.allocate(program.lasting());
                Executable executable = device.load(program, memory);
                Arena arena = Arena.ofConfined()) {
            for (int i = 0; i < values.size(); i++) {
                CpuTensor t = tensor(values.get(i), arena);
                for (int k = 0; k < t.count(); k++) {
                    t.writeNumber(k, element(world.rank(), i, k));
                }
                memory.write(values.get(i), t.bytes());
            }
            executable.run(Phase.UPDATE);
            List<float[]> all = new ArrayList<>();
            for (Value v : values) {
                CpuTensor t = tensor(v, arena);
                memory.read(v, t.bytes());
                float[] x = new float[(int) t.count()];
                t.read(0, x, 0, x.length);
                all.add(x);
            }
            return all;
        }
    }

    private static CpuTensor tensor(Value v, Arena arena) {
        return new CpuTensor(v.type(), arena.allocate(v.type().byteSize(), 64));
    }

    private static void step(ProgramBuilder builder, Op op, List<Value> inputs, List<Value> outputs) {
        builder.step(Phase.UPDATE, "all", op, List.copyOf(inputs), outputs);
    }

    private static List<Value> of(List<Value> values, int rank, boolean owned) {
        List<Value> some = new ArrayList<>();
        for (int i = 0; i < values.size(); i++) {
            if ((OWNERS.get(i) == rank) == owned) {
                some.add(values.get(i));
            }
        }
        return some;
    }

    @ParameterizedTest
    @EnumSource
    void each_owner_has_the_average_and_the_others_keep_what_they_had(Twin twin) {
        List<List<float[]>> after = run(twin, DType.F32, (builder, world, values) -> {
            List<OperandType> types = values.stream().map(Value::type).toList();
            AverageShares op = new AverageShares(types, types, OWNERS, world.rank(), world);
            step(builder, op, values, of(values, world.rank(), true));
        });
        for (int rank = 0; rank < RANKS; rank++) {
            for (int i = 0; i < OWNERS.size(); i++) {
                float[] expected = new float[after.get(rank).get(i).length];
                for (int k = 0; k < expected.length; k++) {
                    float third = (float) (1.0 / RANKS);
                    float sum = element(0, i, k) * third;
                    sum += element(1, i, k) * third;
                    sum += element(2, i, k) * third;
                    expected[k] = OWNERS.get(i) == rank ? sum : element(rank, i, k);
                }
                assertArrayEquals(expected, after.get(rank).get(i), 0, "tensor " + i + " of rank " + rank);
            }
        }
    }

    /** Around a circle, where each posts all before it takes any, and takes the second channel first. */
    @ParameterizedTest
    @EnumSource
    void values_that_a_rank_posts_are_those_that_the_next_one_takes(Twin twin) {
        List<List<float[]>> after = run(twin, DType.F32, (builder, world, values) -> {
            List<OperandType> types = values.stream().map(Value::type).toList();
            int next = (world.rank() + 1) % RANKS;
            int before = (world.rank() + RANKS - 1) % RANKS;
            step(builder, new PostValues(types.subList(0, 1), next, 0, world), values.subList(0, 1), List.of());
            step(builder, new PostValues(types.subList(1, 4), next, 1, world), values.subList(1, 4), List.of());
            step(builder, new TakeValues(types.subList(1, 4), before, 1, world), List.of(), values.subList(1, 4));
            step(builder, new TakeValues(types.subList(0, 1), before, 0, world), List.of(), values.subList(0, 1));
        });
        for (int rank = 0; rank < RANKS; rank++) {
            for (int i = 0; i < OWNERS.size(); i++) {
                float[] expected = new float[after.get(rank).get(i).length];
                for (int k = 0; k < expected.length; k++) {
                    expected[k] = element((rank + RANKS - 1) % RANKS, i, k);
                }
                assertArrayEquals(expected, after.get(rank).get(i), 0, "tensor " + i + " of rank " + rank);
            }
        }
    }

    @ParameterizedTest
    @EnumSource
    void an_average_is_rounded_to_its_type_once(Twin twin) {
        List<List<float[]>> after = run(twin, DType.BF16, (builder, world, values) -> {
            List<OperandType> types = values.stream().map(Value::type).toList();
            AverageShares op = new AverageShares(types, types, OWNERS, world.rank(), world);
            step(builder, op, values, of(values, world.rank(), true));
        });
        // (4 + 8 + 12) / 3 of rank 2's tensor
        assertEquals(8, after.get(2).get(3)[0], 0);
    }

    @ParameterizedTest
    @EnumSource
    void each_value_is_on_all_ranks_what_its_owner_has(Twin twin) {
        List<List<float[]>> after = run(twin, DType.F32, (builder, world, values) -> {
            List<OperandType> types = values.stream().map(Value::type).toList();
            ShareValues op = new ShareValues(types, OWNERS, world.rank(), world);
            step(builder, op, of(values, world.rank(), true), of(values, world.rank(), false));
        });
        for (int rank = 0; rank < RANKS; rank++) {
            for (int i = 0; i < OWNERS.size(); i++) {
                float[] got = after.get(rank).get(i);
                for (int k = 0; k < got.length; k++) {
                    assertEquals(element(OWNERS.get(i), i, k), got[k], 0, "tensor " + i + " of rank " + rank);
                }
            }
        }
    }

    @ParameterizedTest
    @EnumSource
    void zeros_are_zeros(Twin twin) {
        List<List<float[]>> after = run(
                twin,
                DType.F32,
                (builder, _, values) ->
                        values.forEach(v -> step(builder, new ZeroFill(v.type()), List.of(), List.of(v))));
        for (float[] x : after.getFirst()) {
            assertArrayEquals(new float[x.length], x, 0, Arrays.toString(x));
        }
    }

    @Test
    void a_printed_step_does_not_depend_on_what_joins_the_ranks() {
        List<OperandType> types = List.of(type(DType.F32, 0));
        assertEquals(
                "ShareValues[rank=1, owners=[0]]",
                new ShareValues(types, List.of(0), 1, Collectives.alone()).toString());
        assertEquals(
                "AverageShares[rank=1, owners=[0]]",
                new AverageShares(types, types, List.of(0), 1, Collectives.alone()).toString());
    }
}
