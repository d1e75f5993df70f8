package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import dev.octet.spark.SubmittedVerb;
import org.apache.commons.cli.Option;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** Verbs on Spark take options of the command line. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class SparkOptionsTest {
    @Test
    void each_option_on_spark_is_one_of_the_verb_with_or_without_a_value_as_there() {
        SubmittedVerb.VERBS.forEach((verb, names) -> {
            Command command = Octet.COMMANDS.stream()
                    .filter(c -> c.name().equals(verb))
                    .findFirst()
                    .orElseThrow();
            for (String name : names) {
                String plain = name.replace("=", "");
                Option option = command.options().stream()
                        .filter(o -> plain.equals(o.getLongOpt()))
                        .findFirst()
                        .orElse(null);
                assertNotNull(option, verb + " --" + plain);
                assertEquals(option.hasArg(), name.endsWith("="), verb + " --" + plain);
            }
        });
    }
}
