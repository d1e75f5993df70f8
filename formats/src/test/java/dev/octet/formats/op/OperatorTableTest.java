package dev.octet.formats.op;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.TestData;
import dev.octet.formats.graph.Node;
import java.io.IOException;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class OperatorTableTest {
    private static Operator onnx(String name) {
        return OperatorTable.of("", name).orElseThrow();
    }

    @Test
    void the_table_has_the_operators_and_versions_of_onnx_s_schema_registry() throws IOException {
        Map<String, List<Integer>> registry = new TreeMap<>();
        for (String line : Files.readAllLines(TestData.path("golden/onnx/operators.csv"))) {
            String[] cells = line.split(",", 2);
            registry.put(
                    cells[0],
                    Arrays.stream(cells[1].split(" ")).map(Integer::valueOf).toList());
        }
        Map<String, List<Integer>> table = new TreeMap<>();
        OperatorTable.ALL.stream().filter(o -> o.domain().isEmpty()).forEach(o -> table.put(o.name(), o.versions()));
        assertEquals(registry, table);
    }

    @Test
    void every_kind_of_change_and_of_autocast_class_occurs() {
        Set<Change> changes = OperatorTable.ALL.stream()
                .flatMap(o -> o.changes().values().stream())
                .collect(Collectors.toSet());
        changes.add(Change.COMPATIBLE);
        assertEquals(EnumSet.allOf(Change.class), changes);
        Set<AutocastClass> classes =
                OperatorTable.ALL.stream().map(Operator::autocast).collect(Collectors.toSet());
        assertEquals(EnumSet.allOf(AutocastClass.class), classes);
    }

    @Test
    void changes_that_need_a_rewrite_come_after_opset_9_and_not_after_21() {
        for (Operator o : OperatorTable.ALL) {
            assertTrue(o.changes().keySet().stream().allMatch(v -> v > 9 && v <= 21), o.name());
        }
    }

    @Test
    void operators_of_both_domains_are_told_apart() {
        assertEquals(OutputRule.OWN_RULE, onnx("LayerNormalization").output());
        assertEquals(
                OutputRule.SAME_AS_INPUT,
                OperatorTable.of(Node.OCTET_DOMAIN, "LayerNormalization")
                        .orElseThrow()
                        .output());
        assertTrue(OperatorTable.of("com.microsoft", "LayerNormalization").isEmpty());
        assertTrue(OperatorTable.of("", "Linear").isEmpty());
    }

    @Test
    void the_next_version_is_the_first_after_an_opset() {
        assertEquals(OptionalInt.of(13), onnx("Softmax").next(11));
        assertEquals(OptionalInt.of(13), onnx("Softmax").next(12));
        assertEquals(OptionalInt.empty(), onnx("Softmax").next(13));
        assertEquals(Change.ALONG_ONE_AXIS, onnx("Softmax").change(13));
        assertEquals(Change.COMPATIBLE, onnx("Softmax").change(11));
        assertEquals(23, onnx("Attention").since());
    }

    @Test
    void versions_that_do_not_ascend_and_changes_without_a_version_are_refused() {
        assertThrows(IllegalArgumentException.class, () -> operator(List.of(), Map.of()));
        assertThrows(IllegalArgumentException.class, () -> operator(List.of(7, 6), Map.of()));
        assertThrows(IllegalArgumentException.class, () -> operator(List.of(6, 7), Map.of(6, Change.MODE_NAMES)));
    }

    private static Operator operator(List<Integer> versions, Map<Integer, Change> changes) {
        return new Operator("", "X", OutputRule.UNKNOWN, AutocastClass.WIDEST, versions, changes);
    }
}
