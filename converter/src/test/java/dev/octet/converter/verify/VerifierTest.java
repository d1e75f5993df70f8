package dev.octet.converter.verify;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.converter.verify.GoodCheckpoint.Kind;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class VerifierTest {
    @TempDir
    Path folder;

    @ParameterizedTest
    @EnumSource(Kind.class)
    void a_good_checkpoint_has_no_finding(Kind kind) throws IOException {
        GoodCheckpoint.of(kind).write(folder);
        Verification result = Verifier.verify(folder, VerifyOptions.defaults().withConsumers(kind.consumers()));
        assertEquals(List.of(), result.findings());
        assertEquals(List.of(), result.notes());
    }
}
