package dev.octet.trainer.check;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.trainer.autodiff.Parameters;
import java.io.IOException;
import java.util.Map;
import java.util.TreeSet;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TinyParametersTest {
    @ParameterizedTest
    @MethodSource("dev.octet.trainer.check.TinyGoldens#names")
    void parameters_are_what_torch_has_gradients_of(String name) throws IOException {
        try (TinyGoldens tiny = TinyGoldens.open(name)) {
            Parameters parameters = Parameters.of(tiny.graph().graph());
            Map<String, String> renamed = tiny.renamed();
            TreeSet<String> expected = new TreeSet<>();
            tiny.golden()
                    .gradients()
                    .forEach((golden, t) -> expected.add(GoldenName.find(
                                    tiny.graph().graph(), parameters, golden, renamed.getOrDefault(golden, golden), t)
                            .value()));
            assertEquals(expected, new TreeSet<>(parameters.names()));
            assertEquals(tiny.golden().gradients().size(), expected.size());
        }
    }
}
