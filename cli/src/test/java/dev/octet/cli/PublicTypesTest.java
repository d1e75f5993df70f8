package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaModifier;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.RecordComponent;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** Names and options of the public types of all modules, which one program uses together. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class PublicTypesTest {
    /** Records of options that have no defaults of their own, with the reason. */
    private static final Map<String, String> WITHOUT_DEFAULTS = Map.of(
            "ProgramOptions", "what a program computes has to be said",
            "GpuOptions", "ofSystem takes them from the environment");

    /** Components that one method sets together with another. */
    private static final Map<String, String> TOGETHER = Map.of("checkpointSamples", "withCheckpoint");

    private static List<JavaClass> types() {
        return new ClassFileImporter()
                .withImportOption(ImportOption.Predefined.DO_NOT_INCLUDE_TESTS)
                .importPackages("dev.octet").stream()
                        .filter(c -> c.getModifiers().contains(JavaModifier.PUBLIC) && c.isTopLevelClass())
                        .filter(c -> !c.getPackageName().startsWith("dev.octet.bench")
                                && !c.getPackageName().equals("dev.octet.formats.onnx.proto"))
                        .toList();
    }

    @Test
    void no_two_public_types_have_one_simple_name() {
        Map<String, List<String>> bySimpleName = types().stream()
                .collect(Collectors.groupingBy(
                        JavaClass::getSimpleName, Collectors.mapping(JavaClass::getName, Collectors.toList())));
        List<List<String>> shared =
                bySimpleName.values().stream().filter(n -> n.size() > 1).toList();
        assertEquals(List.of(), shared);
        assertTrue(bySimpleName.size() > 300, "only " + bySimpleName.size() + " types found");
    }

    @TestFactory
    Stream<DynamicTest> options_start_from_defaults_and_are_changed_one_by_one() {
        List<Class<?>> options = new ArrayList<>();
        types().stream()
                .filter(c -> c.getSimpleName().endsWith("Options"))
                .filter(c -> !WITHOUT_DEFAULTS.containsKey(c.getSimpleName()))
                .forEach(c -> options.add(c.reflect()));
        assertTrue(options.size() > 8, options.toString());
        return options.stream().map(c -> DynamicTest.dynamicTest(c.getSimpleName(), () -> check(c)));
    }

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
                    || !request.getSimpleName().matches("(\\w*Request|To[A-Z]\\w*|Loss|SampleSource)")) {
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

    private static void check(Class<?> type) throws NoSuchMethodException {
        assertTrue(type.isRecord(), type.getName());
        Method defaults = type.getMethod("defaults");
        assertTrue(Modifier.isStatic(defaults.getModifiers()) && defaults.getReturnType().equals(type));
        for (Field field : type.getDeclaredFields()) {
            boolean constant = Modifier.isPublic(field.getModifiers()) && field.getType().equals(type);
            assertTrue(!constant, "a second spelling of defaults(): " + field.getName());
        }
        List<String> methods = Arrays.stream(type.getMethods())
                .filter(m -> m.getReturnType().equals(type))
                .map(Method::getName)
                .toList();
        for (RecordComponent component : type.getRecordComponents()) {
            String name = component.getName();
            String with = "with" + Character.toUpperCase(name.charAt(0)) + name.substring(1);
            assertTrue(methods.contains(TOGETHER.getOrDefault(name, with)), with);
        }
    }
}
