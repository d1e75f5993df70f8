package dev.octet.converter.infer;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.op.Operator;
import dev.octet.formats.op.OperatorTable;
import dev.octet.formats.op.OutputRule;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TypeRulesTest {
    @Test
    void every_operator_with_a_rule_of_its_own_has_it_here_and_no_other_does() {
        assertEquals(
                OperatorTable.ALL.stream()
                        .filter(o -> o.output() == OutputRule.OWN_RULE)
                        .map(Operator::name)
                        .collect(Collectors.toCollection(TreeSet::new)),
                new TreeSet<>(TypeRules.own()));
    }
}
