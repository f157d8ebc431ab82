from firesteel.common.completable_future import *
