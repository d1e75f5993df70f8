package dev.octet.quant.number;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import jdk.incubator.vector.IntVector;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class IntegerUnitTest {
    private static IntegerUnit of(String flags) {
        return IntegerUnit.of("amd64", List.of("processor\t: 0", "flags\t\t: fpu sse4_2 " + flags, "bogomips\t: 1"));
    }

    @Test
    void vnni_adds_products_in_32_bits_and_avx2_without_it_in_pairs() {
        assertEquals(IntegerUnit.WIDE, of("avx2 avx512f avx512_vnni"));
        assertEquals(IntegerUnit.WIDE, of("avx2 avx_vnni"));
        assertEquals(IntegerUnit.PAIRS, of("avx avx2 fma"));
        assertEquals(IntegerUnit.PAIRS, of("avx avx2 avx512f avx512bw"));
    }

    @Test
    void arm_adds_in_32_bits_and_what_is_not_told_is_unknown() {
        assertEquals(IntegerUnit.WIDE, IntegerUnit.of("aarch64", List.of()));
        assertEquals(IntegerUnit.UNKNOWN, IntegerUnit.of("amd64", List.of()));
        assertEquals(IntegerUnit.UNKNOWN, of("avx"));
    }

    @Test
    void a_machine_with_vectors_of_256_bits_is_known_on_Linux() {
        boolean linux = System.getProperty("os.name").equals("Linux");
        boolean known = linux && IntVector.SPECIES_PREFERRED.vectorBitSize() >= 256; // by the JVM: AVX2 at least
        IntegerUnit unit = IntegerUnit.ofThisMachine();
        assertTrue(!known || unit != IntegerUnit.UNKNOWN, unit.text());
    }
}
