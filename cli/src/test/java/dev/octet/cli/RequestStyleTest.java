package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.RecordComponent;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** What all requests of the verbs have in common for a program that makes them. */
@Execution(ExecutionMode.CONCURRENT)
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RequestStyleTest {
    private static final String REQUEST = "\\w*Request|To[A-Z]\\w*|Loss|SampleSource";

    @Test
    void requests_start_from_of_and_take_what_is_optional_by_with() {
        List<String> missing = new ArrayList<>();
        int seen = 0;
        for (JavaClass type : new ClassFileImporter()
                .withImportOption(ImportOption.Predefined.DO_NOT_INCLUDE_TESTS)
                .importPackages("dev.octet.pipeline")) {
            Class<?> request = type.reflect();
            if (!Modifier.isPublic(request.getModifiers())
                    || !request.isRecord()
                    || !request.getSimpleName().matches(REQUEST)) {
                continue;
            }
            List<String> methods =
                    Arrays.stream(request.getMethods()).map(Method::getName).toList();
            for (RecordComponent component : request.getRecordComponents()) {
                String name = component.getName();
                if (component.getType().equals(Optional.class)) {
                    seen++;
                    String with = "with" + Character.toUpperCase(name.charAt(0)) + name.substring(1);
                    if (!methods.contains(with) || !methods.contains("of")) {
                        missing.add(request.getName() + "." + with);
                    }
                }
            }
        }
        assertEquals(List.of(), missing);
        assertTrue(seen > 8, seen + " optional components");
    }
}
