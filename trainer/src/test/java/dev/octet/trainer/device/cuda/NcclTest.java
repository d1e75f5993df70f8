package dev.octet.trainer.device.cuda;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankThreads;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.device.RankSums;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.program.ProgramBuilder;
import dev.octet.trainer.program.Value;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** The binding of NCCL: against an interface of the same functions among threads; alone on a real GPU, where there is one. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class NcclTest {
    private static final Duration DEADLINE = Duration.ofSeconds(30);

    private static Value value(String name, long elements) {
        return new ProgramBuilder().gradient(name, new OperandType(DType.F32, Shape.of(elements)));
    }

    private static float[] numbers(int rank, int count) {
        float[] all = new float[count];
        for (int i = 0; i < count; i++) {
            all[i] = (rank + 1) * (i % 97 - 48);
        }
        return all;
    }

    private static void write(Memory memory, Value value, float[] elements) {
        try (Arena arena = Arena.ofConfined()) {
            memory.write(
                    value,
                    Tensor.ofFloats(arena, value.name(), value.type().shape(), elements)
                            .bytes());
        }
    }

    private static float[] read(Memory memory, Value value) {
        float[] elements = new float[Math.toIntExact(value.type().count())];
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment bytes = arena.allocate(value.type().byteSize(), 64);
            memory.read(value, bytes);
            MemorySegment.copy(bytes, Tensor.F32_LE, 0, elements, 0, elements.length);
        }
        return elements;
    }

    /** What becomes of two values of a rank. */
    private static List<float[]> averaged(Device device, Collectives world) {
        List<Value> values = List.of(value("a", 1000), value("b", 3));
        try (Memory memory = device.allocate(values);
                RankSums sums = memory.sums(world)) {
            for (Value v : values) {
                write(memory, v, numbers(world.rank(), (int) v.type().count()));
            }
            sums.average(values);
            return values.stream().map(v -> read(memory, v)).toList();
        }
    }

    @Test
    void values_of_all_ranks_are_averaged_on_the_device() {
        List<List<float[]>> ranks = RankThreads.run(3, DEADLINE, world -> {
            try (Device device = TestGpus.emulated()) {
                return averaged(device, world);
            }
        });
        for (List<float[]> rank : ranks) {
            // (1 + 2 + 3) / 3
            assertArrayEquals(numbers(1, 1000), rank.get(0));
            assertArrayEquals(numbers(1, 3), rank.get(1));
        }
    }

    @Test
    void what_NCCL_reports_is_told_with_its_name_and_what_to_do() {
        UnavailableException failed = assertThrows(
                UnavailableException.class,
                () -> RankThreads.run(5, DEADLINE, world -> {
                    try (Device device = TestGpus.emulated()) {
                        return averaged(device, world);
                    }
                }));
        UnavailableException why = assertInstanceOf(UnavailableException.class, failed.getCause());
        assertEquals("ncclCommInitRank failed: invalid usage (5)", why.what());
        assertTrue(why.where().startsWith("NCCL 2.27.3, "), why.where());
    }

    @Test
    @Tag("gpu")
    void one_rank_on_a_GPU_keeps_its_values() {
        try (Device device = TestGpus.realDevice()) {
            List<float[]> kept = averaged(device, Collectives.alone());
            assertArrayEquals(numbers(0, 1000), kept.get(0));
            assertArrayEquals(numbers(0, 3), kept.get(1));
        }
    }
}
