package dev.octet.formats.checkpoint;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.Objects;
import java.util.Set;
import java.util.SplittableRandom;

/** Holds a checkpoint in one format against the same tensors in safetensors. */
public final class SameTensors {
    private SameTensors() {}

    /** Names, types, shapes and all bytes, read whole and in random stretches. */
    public static void assertSame(Path expected, Path found) throws IOException {
        try (Checkpoint whole = Checkpoint.open(expected);
                Checkpoint other = Checkpoint.open(found)) {
            assertSame(whole, other, whole.tensors().keySet());
        }
    }

    /** The same of some tensors, which are to be all of {@code found}. */
    public static void assertSame(Checkpoint expected, Checkpoint found, Set<String> names) throws IOException {
        assertEquals(new HashSet<>(names), found.tensors().keySet());
        SplittableRandom random = new SplittableRandom(1);
        for (String name : names) {
            StoredTensor a = Objects.requireNonNull(expected.tensor(name));
            StoredTensor b = Objects.requireNonNull(found.tensor(name));
            assertEquals(a.spec(), b.spec());
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment whole = expected.read(a, arena);
                assertEquals(-1, whole.mismatch(found.read(b, arena)), name);
                for (int i = 0; i < 20 && whole.byteSize() > 0; i++) {
                    long from = random.nextLong(whole.byteSize());
                    long length = 1 + random.nextLong(whole.byteSize() - from);
                    MemorySegment part = arena.allocate(length);
                    found.read(b, from, part);
                    assertEquals(-1, whole.asSlice(from, length).mismatch(part), name + " from " + from);
                }
            }
        }
    }
}
