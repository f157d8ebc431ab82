from firesteel.common.input_dependency_constraint import *
