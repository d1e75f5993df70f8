package dev.octet.formats.model;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
final class ModelFingerprintTest {
    private static final int LARGE = 5 * ModelFingerprint.SAMPLE;

    private static Tensor tensor(String name, int bytes) {
        return Tensor.allocate(Arena.ofAuto(), new TensorSpec(name, DType.U8, Shape.of(bytes)));
    }

    private static String of(Tensor... tensors) {
        Map<String, Tensor> map = new LinkedHashMap<>();
        for (Tensor t : tensors) {
            map.put(t.name(), t);
        }
        return ModelFingerprint.of("{}", map);
    }

    private static Tensor changed(int bytes, int at) {
        Tensor t = tensor("w", bytes);
        t.bytes().set(ValueLayout.JAVA_BYTE, at, (byte) 1);
        return t;
    }

    @Test
    void a_change_in_a_short_tensor_or_in_a_sample_of_a_long_one_is_seen() {
        for (int at : new int[] {0, 5000, 3 * ModelFingerprint.SAMPLE - 1}) {
            assertNotEquals(
                    of(tensor("w", 3 * ModelFingerprint.SAMPLE)),
                    of(changed(3 * ModelFingerprint.SAMPLE, at)),
                    "at " + at);
        }
        for (int at : new int[] {0, ModelFingerprint.SAMPLE - 1, LARGE / 2, LARGE - 1}) {
            assertNotEquals(of(tensor("w", LARGE)), of(changed(LARGE, at)), "at " + at);
        }
    }

    @Test
    void the_order_of_tensors_does_not_matter_while_names_and_shapes_do() {
        Tensor a = tensor("a", 10);
        Tensor b = tensor("b", 20);
        assertEquals(of(a, b), of(b, a));
        assertNotEquals(of(a, b), of(a, b.withName("c")));
        assertNotEquals(of(tensor("a", 10), tensor("b", 20)), of(tensor("a", 20), tensor("b", 10)));
        assertNotEquals(ModelFingerprint.of("{}", Map.of("a", a)), ModelFingerprint.of("{ }", Map.of("a", a)));
    }
}
